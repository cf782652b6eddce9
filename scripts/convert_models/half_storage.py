"""Store a network's weights as float16 while it goes on computing in float32.

Each large float32 weight becomes a float16 one behind a Cast. onnxruntime folds the casts when it loads the file, so
the session is as fast as the original and the file half as big. Needs ``onnx``; not a run-time dependency.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SMALL = 1024  # below this many numbers (biases, shapes) the Cast costs more bytes than it saves
LARGEST_HALF = float(np.finfo(np.float16).max)


def store_as_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with its large weights stored as float16. Mutates it."""
    casts = []
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < SMALL or np.abs(values).max() > LARGEST_HALF:
            continue
        name, stored = weight.name, f"{weight.name}_half"
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), stored))
        casts.append(helper.make_node("Cast", [stored], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model)
    return model
