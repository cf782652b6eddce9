"""Speech written down whole, piece after piece, as the pipeline does without a deadline."""

from schemas.deadline import Deadline
from schemas.perception import Transcript
from stages.transcribe import PieceTask, SpeechTask, Transcriber, joined


def write_down(transcriber: Transcriber, task: SpeechTask, *, deadline: Deadline) -> Transcript:
    """Return all that is said."""
    if not task.spans:
        return joined([])
    windows = transcriber.windows(task, deadline=deadline)
    return joined([transcriber.run(PieceTask(task.audio, w, task.model), deadline=deadline) for w in windows])
