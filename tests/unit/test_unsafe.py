"""The unsafe stage around its network."""

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, Rgb
from stages.unsafe import UnsafeClassifier

FRAME = Frame(0, 0.0, np.zeros((9, 16, 3), np.uint8), 16, 9)


class Brightness:
    """Finds bright pictures unsafe."""

    name = "fake 1"

    def probability(self, image: Rgb) -> float:
        return float(image.mean() / 255)


def test_the_stage_says_what_the_network_says() -> None:
    stage = UnsafeClassifier(Brightness())  # type: ignore[arg-type]
    assert stage.run(FRAME, deadline=Deadline.never()) == 0.0
    assert (stage.name, stage.model) == ("unsafe", "fake 1")


def test_a_passed_deadline_stops_before_the_network_is_run() -> None:
    with pytest.raises(DeadlineExceeded):
        UnsafeClassifier(Brightness()).run(FRAME, deadline=Deadline.after(-1))  # type: ignore[arg-type]
