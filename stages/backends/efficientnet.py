"""EfficientNet-Lite0 (Apache-2.0), the classifier that comes with the package."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.media import Rgb
from stages.backends.onnx import OnnxModel, open_session
from stages.backends.pictures import planes, resized
from stages.base import Compute
from stages.vocabulary import shipped

SIDE_PX = 224


class Classified(NamedTuple):
    """What the classifier makes of one picture.

    ``probabilities``: shape (1000,), over ImageNet's classes, summing to 1. ``embedding``: shape (1280,), unit length.
    """

    probabilities: npt.NDArray[np.float32]
    embedding: npt.NDArray[np.float32]


class EfficientNetLite:
    """Classifies a picture, or a crop of one, stretched to 224 x 224. Thread-safe."""

    name = "efficientnet-lite0 0.1.0"

    def __init__(self, network: OnnxModel) -> None:
        self._network = network

    @classmethod
    def shipped(cls, compute: Compute) -> "EfficientNetLite":
        """Open the file that comes with the package."""
        return cls(open_session(shipped("efficientnet_lite0.onnx"), compute=compute))

    def classify(self, image: Rgb) -> Classified:
        """Return class probabilities and embedding of ``image``."""
        small = resized(image, width=SIDE_PX, height=SIDE_PX)
        logits, embedding = self._network(planes(small, mean=127.0, scale=128.0))
        weights = np.exp(logits[0] - logits[0].max())
        length = np.maximum(np.linalg.norm(embedding[0]), np.finfo(np.float32).tiny)
        return Classified(weights / weights.sum(), (embedding[0] / length).astype(np.float32))
