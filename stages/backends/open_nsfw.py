"""open_nsfw (BSD-2-Clause, Yahoo), a classifier of pictures that are not safe for work."""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from schemas.media import Rgb
from stages.backends.onnx import Tensor, open_session
from stages.base import Compute

RESIZED_PX, CROPPED_PX = 256, 224
MEAN_BGR = np.array([104, 117, 123], np.float32)


class OpenNsfw:
    """Judges a picture as the reference does, step by step, so that thresholds published for its scores hold here."""

    name = "open-nsfw 0.1.0"

    def __init__(self, network: Path, *, compute: Compute) -> None:
        self._network = open_session(network, compute=compute)

    def probability(self, image: Rgb) -> float:
        """Return how likely ``image`` is unsafe, in [0, 1]. Thread-safe."""
        (outputs,) = self._network(_prepared(image))
        return float(np.clip(outputs[0, 1], 0, 1))


def _prepared(image: Rgb) -> Tensor:
    """Return the input, shape (1, 224, 224, 3): stretched to 256 x 256, the middle, through JPEG, BGR less the mean."""
    edge = (RESIZED_PX - CROPPED_PX) // 2
    whole = Image.fromarray(image).resize((RESIZED_PX, RESIZED_PX), Image.Resampling.BILINEAR)
    middle = whole.crop((edge, edge, edge + CROPPED_PX, edge + CROPPED_PX))
    # The network saw JPEGs only: without this step scores of the same pictures differ by up to 0.15.
    with BytesIO() as jpeg:
        middle.save(jpeg, format="JPEG")
        rgb = np.asarray(Image.open(jpeg), np.float32)
    return np.ascontiguousarray(rgb[None, :, :, ::-1] - MEAN_BGR)
