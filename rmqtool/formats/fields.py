"""Field tables, numpy dtypes and ``struct`` formats derived from a schema.

A field's documentation in a schema is ``"JAVANAME; unit; meaning"``, written with construct's ``*``.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rmqtool.imports import imported_late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np


with imported_late("hashlib", "pdb", "pickle"):  # for classes of construct that are of no use here
    import construct

RowT = TypeVar("RowT", bound=tuple[int, ...])


class FieldLayout(NamedTuple):
    """Place and meaning of one field of a record.

    ``name`` is ours, as in ndjson; ``offset`` (from the record's start) and ``size`` are in bytes, None where
    they vary; ``code`` is the ``struct`` and numpy type code (``i``, ``q``, …) of an integer, None for bytes;
    ``unit`` is what the number counts.
    """

    name: str
    offset: int | None
    size: int | None
    code: str | None
    java_name: str
    unit: str
    meaning: str


_SIGNED_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}


def _integer_code(subcon: construct.Construct) -> str | None:
    """Return the type code from sign and width; construct's own ``l`` is 4 bytes where numpy's is 8."""
    while isinstance(subcon, construct.Subconstruct):
        subcon = subcon.subcon
    if not isinstance(subcon, construct.FormatField):
        return None
    code = _SIGNED_CODES[subcon.length]
    return code if subcon.fmtstr[-1].islower() else code.upper()


def _size_of(subcon: construct.Construct, context: dict[str, int]) -> int | None:
    try:
        return int(subcon.sizeof(**context))
    except (construct.SizeofError, construct.StreamError, KeyError):
        return None


def layout(schema: construct.Struct, **context: int) -> tuple[FieldLayout, ...]:
    """List the fields of ``schema`` in order; widths may depend on ``context``, such as ``sysFlag``."""
    fields: list[FieldLayout] = []
    offset: int | None = 0
    for subcon in schema.subcons:
        size = _size_of(subcon, context)
        java_name, unit, meaning = (part.strip() for part in subcon.docs.split(";", 2))
        fields.append(FieldLayout(subcon.name, offset, size, _integer_code(subcon), java_name, unit, meaning))
        offset = None if offset is None or size is None else offset + size
    return tuple(fields)


def offsets(schema: construct.Struct, **context: int) -> dict[str, int]:
    """Map the name of every field at a fixed place to its offset in bytes."""
    return {field.name: field.offset for field in layout(schema, **context) if field.offset is not None}


def fixed_size(schema: construct.Struct, **context: int) -> int:
    """Return the bytes of a schema's leading fields of fixed width."""
    return sum(field.size for field in layout(schema, **context) if field.size is not None)


def struct_of(schema: construct.Struct, **context: int) -> struct.Struct:
    """Return the ``struct.Struct`` of a schema's leading fields of fixed width (bytes fields as ``Ns``)."""
    codes = [field.code or f"{field.size}s" for field in layout(schema, **context) if field.size is not None]
    return struct.Struct(">" + "".join(codes))


def record_dtype(schema: construct.Struct) -> np.dtype[Any]:
    """Return the big-endian numpy dtype of a schema, itemsize = record size."""
    import numpy as np

    formats: list[tuple[str, str]] = []
    for field in layout(schema):
        if field.code is None:
            raise TypeError(f"{field.name} is no integer: no dtype for it")
        kind = "i" if field.code.islower() else "u"
        formats.append((field.name, f">{kind}{field.size}"))
    return np.dtype(formats)


class Decoder(Generic[RowT]):
    """Reader of records of integers: one as a named tuple, without numpy, or many as a structured array.

    ``make`` is ``_make`` of a named tuple with the schema's fields in snake case, in their order, with
    ``_ms`` for milliseconds. ``size`` is the bytes of a record.
    """

    def __init__(self, schema: construct.Struct, make: Callable[[Iterable[Any]], RowT]) -> None:
        self.schema = schema
        self.make = make
        self._struct = struct_of(schema)
        self.size = self._struct.size

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of an array of records, its fields named as in the schema."""
        return record_dtype(self.schema)

    def decode(self, data: bytes, position: int = 0) -> RowT | None:
        """Return the record at a position; None where the bytes end before it does."""
        if len(data) - position < self.size:
            return None
        return self.make(self._struct.unpack_from(data, position))

    def padded(self, data: bytes) -> RowT:
        """Return the record at the start of some bytes, zeros past their end.

        Brokers read short files so: ``DefaultMappedFile`` extends them to their size.
        """
        return self.make(self._struct.unpack(data[: self.size].ljust(self.size, b"\0")))

    def encode(self, values: Iterable[int]) -> bytes:
        """Return the bytes of a record."""
        return self._struct.pack(*values)
