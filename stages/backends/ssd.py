"""SSD MobileNetV3-large, the detector that comes with the package (Apache-2.0, TensorFlow model zoo)."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from schemas.media import Rgb
from stages.backends.boxes import Corners, best_sightings
from stages.backends.onnx import open_session
from stages.backends.pictures import planes, resized
from stages.base import Compute
from stages.detect import Sighting
from stages.vocabulary import Coco, shipped

SIDE_PX = 320
OVERLAP = 0.5
CENTRE_SCALE, SIZE_SCALE = 10.0, 5.0  # the box coder's constants in the graph's last node


class SsdMobileNet:
    """Finds COCO's 80 classes in a picture stretched to 320 x 320, as the network was trained."""

    name = "ssd-mobilenet-v3-large-320 2020-01-14"

    def __init__(self, network: Path, *, anchors: Path, labels: Path, compute: Compute) -> None:
        """``anchors``: .npy, shape (n, 4), y-x-h-w. ``labels``: one name a line, COCO's 90 old rows."""
        rows = labels.read_text("utf-8").split("\n")
        known = set(Coco.load().labels)
        # Some old rows name things that COCO never annotated ("hat", "plate"): the network never learned them.
        self._rows = np.array([i for i, label in enumerate(rows) if label in known])
        self._labels = [rows[i] for i in self._rows]
        self._anchors: npt.NDArray[np.float32] = np.load(anchors)
        self._network = open_session(network, compute=compute)

    @classmethod
    def shipped(cls, compute: Compute) -> "SsdMobileNet":
        """Open the files that come with the package."""
        return cls(
            shipped("ssd_mobilenet_v3.onnx"),
            anchors=shipped("ssd_mobilenet_v3.anchors.npy"),
            labels=shipped("ssd_mobilenet_v3.labels.txt"),
            compute=compute,
        )

    def look(self, image: Rgb, *, floor: float) -> list[Sighting]:
        """Return what scores at least ``floor``, best first."""
        small = resized(image, width=SIDE_PX, height=SIDE_PX)
        encodings, probabilities = self._network(planes(small, mean=127.5, scale=127.5))
        scores = probabilities[0][:, self._rows + 1]  # column 0 is background
        where, classes = np.nonzero(scores >= floor)
        boxes = decode(encodings[0][where], self._anchors[where])
        return best_sightings(boxes, scores[where, classes], classes, labels=self._labels, overlap=OVERLAP)


def decode(encodings: npt.NDArray[np.float32], anchors: npt.NDArray[np.float32]) -> Corners:
    """Return the corners (n, 4) that y-x-h-w ``encodings`` mean relative to ``anchors``, cut at the picture's edge.

    The inverse of the SSD box coder (arXiv:1512.02325, equation 2) with TensorFlow's scales.
    """
    y, x = (encodings[:, :2] / CENTRE_SCALE * anchors[:, 2:] + anchors[:, :2]).T
    h, w = (np.exp(encodings[:, 2:] / SIZE_SCALE) * anchors[:, 2:]).T
    corners: Corners = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1).clip(0, 1)
    return corners
