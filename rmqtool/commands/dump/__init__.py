"""``dump``: content of a store's files, structure by structure.

``request`` has the request, ``run`` goes from structure to structure and reads the log (in one walk, or by
``lines``, in which kernels write ndjson on all cores), ``derived`` reads units, index files and ``config/``.
``hex`` adds the
bytes of a row, and has the formats' own tables of fields. Everything is checked first; damage is a row of
its own, at its place.
"""

from __future__ import annotations
