"""COLUMNS. Messages as columns: buffers that kernels fill, Arrow arrays around them, files of them.

``names`` says which columns there are; ``buffers`` holds them while they grow, ``encoder`` fills them from a
log on all cores, and from rows where kernels cannot. ``arrow`` and ``files`` alone know pyarrow, an extra of
the package: nothing else may load it.
"""

from __future__ import annotations
