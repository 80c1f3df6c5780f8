"""``dump``: what lies in the files of a store, structure by structure.

``request`` is what is wanted, ``run`` goes from structure to structure: ``log`` (one walk, or ``lines``, in
which kernels write ndjson on all cores), ``units``,
``index``, ``config``. ``hex`` adds the bytes of a row, ``layouts`` the formats' own tables of fields.

Nothing is believed before it is checked; what is wrong is a row of its own, where it lies.
"""

from __future__ import annotations

from rmqtool.commands.dump.request import ROW_TYPES, DumpRequest
from rmqtool.commands.dump.run import dump

__all__ = ["ROW_TYPES", "DumpRequest", "dump"]
