"""Whether a frame is fit to be shown."""

from typing import TYPE_CHECKING

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame

if TYPE_CHECKING:
    from stages.backends.open_nsfw import OpenNsfw


class UnsafeClassifier:
    """The ``unsafe`` stage: one frame in, the probability that it is unsafe out."""

    name = "unsafe"

    def __init__(self, network: "OpenNsfw") -> None:
        self._network = network
        self.model = network.name

    def run(self, unit: Frame, *, deadline: Deadline) -> float:
        """Return the network's softmax for "unsafe", in [0, 1]; not calibrated."""
        if deadline.expired:
            raise DeadlineExceeded
        return self._network.probability(unit.image)
