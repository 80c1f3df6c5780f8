"""``dump``: content of a store's files, structure by structure.

``request`` has the request, ``run`` goes from structure to structure: ``log`` (one walk, or ``lines``, in
which kernels write ndjson on all cores), ``derived`` (units, index files, ``config/``). ``hex`` adds the
bytes of a row, and has the formats' own tables of fields. Everything is checked first; damage is a row of
its own, at its place.
"""

from __future__ import annotations
