"""GGUF to GGUF at Q8_0: for weights that can be had in formats that our executor reads with loss (Q4_1).

The same bytes on every machine: each step is one IEEE operation on 32-bit floats, rounded as ``ggml`` rounds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.gguf_reader import ReaderField, ReaderTensor
from gguf.quants import dequantize, quant_shape_to_byte_shape, quantize

Bytes = npt.NDArray[np.uint8]

_WRITTEN_BY_THE_WRITER: Final = ("GGUF.", "general.architecture")
_FILE_TYPE: Final = "general.file_type"

SLICE_ROWS: Final = 4096
"""Rows of a tensor in floats at a time: 9 MB at 576 columns, instead of 113 MB for a whole embedding."""


def requantise(origin: Path, target: Path, *, on_bytes: Callable[[int], None]) -> None:
    """Write the model in ``origin`` to ``target`` with every quantised tensor as Q8_0; the others stay as they are.

    ``on_bytes`` hears how many bytes of weights are written so far. Stopped half-way, ``target`` is a broken file: give
    it a name that nobody reads, then rename it. Needs memory for the largest tensor at Q8_0.
    """
    reader = GGUFReader(origin)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    try:
        for name, field in reader.fields.items():
            if not name.startswith(_WRITTEN_BY_THE_WRITER):
                _add_field(writer, name, field)
        for tensor in reader.tensors:
            _announce(writer, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        written = 0
        for tensor in reader.tensors:
            data = _converted(tensor)
            writer.write_tensor_data(data)
            written += data.nbytes
            on_bytes(written)
    finally:
        writer.close()


def _add_field(writer: GGUFWriter, name: str, field: ReaderField) -> None:
    kind = field.types[0]
    items = field.types[-1] if kind is GGUFValueType.ARRAY else None
    value = LlamaFileType.MOSTLY_Q8_0.value if name == _FILE_TYPE else field.contents()
    writer.add_key_value(name, value, kind, sub_type=items)


def _announce(writer: GGUFWriter, tensor: ReaderTensor) -> None:
    shape = _shape(tensor)
    if _is_quantised(tensor):
        stored = quant_shape_to_byte_shape(shape, GGMLQuantizationType.Q8_0)
        n_bytes = int(np.prod(stored))
        writer.add_tensor_info(tensor.name, stored, np.dtype(np.uint8), n_bytes, raw_dtype=GGMLQuantizationType.Q8_0)
    else:
        writer.add_tensor_info(tensor.name, shape, tensor.data.dtype, tensor.n_bytes, raw_dtype=tensor.tensor_type)


def _converted(tensor: ReaderTensor) -> Bytes:
    """Return the tensor's data as they are to be stored, shape (rows, bytes of a row) when quantised."""
    if not _is_quantised(tensor):
        return tensor.data
    rows = len(tensor.data)
    stored: Bytes = np.empty(quant_shape_to_byte_shape(_shape(tensor), GGMLQuantizationType.Q8_0), np.uint8)
    for start in range(0, rows, SLICE_ROWS):
        some = slice(start, start + SLICE_ROWS)
        stored[some] = quantize(dequantize(tensor.data[some], tensor.tensor_type), GGMLQuantizationType.Q8_0)
    return stored


def _is_quantised(tensor: ReaderTensor) -> bool:
    return tensor.tensor_type not in (GGMLQuantizationType.F32, GGMLQuantizationType.F16)


def _shape(tensor: ReaderTensor) -> tuple[int, ...]:
    """Return the shape in NumPy's order; the file lists the fastest dimension first."""
    return tuple(int(size) for size in reversed(tensor.shape))
