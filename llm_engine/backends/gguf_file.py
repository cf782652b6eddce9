"""GGUF, the file that llama.cpp keeps models in: a header of named values and tensors, then the tensors' bytes.

Read by hand because the ``gguf`` package makes NumPy views of each of the 98,000 vocabulary entries: 1.8 s for a file
that takes 0.1 s here. The file is not trusted: every length is checked against what is left of it.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from schemas.errors import ConfigurationError, ErrorCode

PULL = "run 'halfsecond models pull'"
"""What helps against every damaged or missing file."""

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
_LENGTH = struct.Struct("<Q")
_MAX_DIMENSIONS = 4

GgufValue = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor lies. ``shape``: rows first. ``kind``: number of its GGML type. ``offset_bytes``: in the file."""

    shape: tuple[int, ...]
    kind: int
    offset_bytes: int


class GgufFile:
    """The header of a GGUF file, and access to its tensors' bytes. Immutable.

    Raises ``ConfigurationError``: ``MODEL_MISSING`` when there is no such file, ``MODEL_FAILED`` when it is not GGUF or
    is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            text = f"cannot read the model {path} ({error.strerror}): {PULL}"
            raise ConfigurationError(ErrorCode.MODEL_MISSING, text) from error
        except ValueError as error:  # of an empty file nothing can be mapped
            raise ConfigurationError(ErrorCode.MODEL_FAILED, f"{path} is empty: {PULL}") from error
        try:
            self._read_header()
        except (struct.error, ValueError, OverflowError) as error:
            self.fail(f"is damaged ({error})", error)

    def _read_header(self) -> None:
        if self._data[:4] != _MAGIC:
            self.fail("is not a GGUF file")
        cursor = _Cursor(self._data, offset=4)
        if (version := cursor.integer("<I")) not in _VERSIONS:
            self.fail(f"has GGUF version {version}, and 2 and 3 are understood")
        tensors, values = cursor.integer("<Q"), cursor.integer("<Q")
        self.values = MappingProxyType({cursor.text(): cursor.value(cursor.integer("<I")) for _ in range(values)})
        headers = {cursor.text(): cursor.tensor() for _ in range(tensors)}
        begin = _aligned(cursor.offset, self.values.get("general.alignment", _DEFAULT_ALIGNMENT))
        self.tensors = MappingProxyType(
            {name: GgufTensor(shape, kind, begin + offset) for name, (shape, kind, offset) in headers.items()}
        )

    def tensor_bytes(self, name: str, length: int) -> npt.NDArray[np.uint8]:
        """Return the first ``length`` bytes of a tensor, as a view of the file. Raises ``ConfigurationError``."""
        offset = self.tensors[name].offset_bytes
        if offset + length > len(self._data):
            self.fail(f"is cut short within {name!r}")
        return np.frombuffer(self._data, np.uint8, length, offset)

    def fail(self, what: str, cause: Exception | None = None) -> NoReturn:
        """Raise ``ConfigurationError`` (``MODEL_FAILED``) that says what is wrong with this file, and what to do."""
        raise ConfigurationError(ErrorCode.MODEL_FAILED, f"the model {self._path} {what}: {PULL}") from cause


class _Cursor:
    """Reads values one after another. Raises ``struct.error`` or ``ValueError`` where the data ends too soon."""

    def __init__(self, data: mmap.mmap, *, offset: int) -> None:
        self._data = data
        self.offset = offset

    def integer(self, layout: str) -> int:
        (number,) = struct.unpack_from(layout, self._data, self.offset)
        self.offset += struct.calcsize(layout)
        return int(number)

    def text(self) -> str:
        return self._texts(1)[0]

    def value(self, kind: int) -> GgufValue:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self._scalars(kind, 1)[0]
        kind, count = self.integer("<I"), self.integer("<Q")
        return self._texts(count) if kind == _STRING else self._scalars(kind, count)

    def tensor(self) -> tuple[tuple[int, ...], int, int]:
        """Return shape, GGML type and offset within the tensors' bytes."""
        if (dimensions := self.integer("<I")) > _MAX_DIMENSIONS:
            raise ValueError(f"a tensor of {dimensions} dimensions")
        shape = tuple(self.integer("<Q") for _ in range(dimensions))
        return shape[::-1], self.integer("<I"), self.integer("<Q")

    def _scalars(self, kind: int, count: int) -> list[bool] | list[int] | list[float]:
        if kind not in _SCALARS:
            raise ValueError(f"a value of kind {kind}")
        if not count:
            return []
        numbers = np.frombuffer(self._data, _SCALARS[kind], count, self.offset)
        self.offset += numbers.nbytes
        found: list[bool] | list[int] | list[float] = numbers.tolist()
        return found

    def _texts(self, count: int) -> list[str]:
        data, offset, found = self._data, self.offset, []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size
            if offset + length > len(data):
                raise ValueError("a text that is longer than the file")
            found.append(data[offset : offset + length].decode())
            offset += length
        self.offset = offset
        return found


def _aligned(offset: int, alignment: GgufValue) -> int:
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"an alignment of {alignment}")
    return -(-offset // alignment) * alignment
