"""Readers of the files that brokers derive from the log, the only ones of the package.

Records of one length come from the schemas (`rmqtool.formats.Decoder`), as rows without numpy or as columns
with it.
"""

from __future__ import annotations
