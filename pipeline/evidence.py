"""What fusion works on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.planner import ChosenPlan
from schemas.errors import HalfsecondError
from schemas.job import VideoJob
from schemas.media import Frame, MediaWarning, ProbedMedia
from schemas.result import StageStatus
from schemas.stage import StageResult


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that one job came to know by its end."""

    job: VideoJob
    stages: Mapping[str, StageResult[Any]]
    frames: tuple[Frame, ...]
    probed: ProbedMedia | None
    chosen: ChosenPlan | None
    refusal: HalfsecondError | None
    packets_damaged: int
    decoding_warnings: tuple[MediaWarning, ...]

    def parts(self, name: str) -> tuple[Any, ...]:
        """Return what the stage found, unit by unit."""
        return self.stages[name].parts

    def status(self, name: str) -> StageStatus:
        """Return how the stage ended."""
        return self.stages[name].status

    def wants(self, stage: str) -> bool:
        """Whether the job asked for ``stage``."""
        return self.job.want is None or stage in self.job.want

    @property
    def warnings(self) -> tuple[MediaWarning, ...]:
        """Each warning once: the sound and the pictures of a damaged file may both speak of it."""
        heard = (warning for clip in self.parts("audio") for warning in clip.warnings)
        all_warnings = (*(self.probed.warnings if self.probed else ()), *self.decoding_warnings, *heard)
        return tuple({warning.code: warning for warning in all_warnings}.values())
