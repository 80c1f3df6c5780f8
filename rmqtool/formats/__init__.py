"""Layouts of the store's file formats, each written once as construct schemas.

No other package has an offset. From a schema, ``layout`` derives the table of fields, ``record_dtype`` the
numpy dtype of records, ``struct_of`` the ``struct.Struct`` of a fixed part; a ``Decoder`` reads records of
integers by both. All integers are big-endian, two's complement; nothing is aligned or padded.
"""

from __future__ import annotations

from rmqtool.formats.fields import Decoder, FieldLayout, layout, record_dtype, struct_of

__all__ = ["Decoder", "FieldLayout", "layout", "record_dtype", "struct_of"]
