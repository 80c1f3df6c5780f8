"""CARVE: records out of raw bytes without names, laid out as the logs they were.

``images`` reads the images and finds records there (``rmqtool.scan.loose``), within the ranges that maps of
ddrescue name; ``proving`` proves them, ``logs`` joins the pieces of one log, ``layout`` finds the places of
all files, and ``writing`` writes them.

A record is *proven* by its magic, its lengths, the CRC of its body and ``__CRC32#`` where it has that; its
place is the one that it names itself. A log gets proven records only, at their own places. Records are rows
of arrays, never objects: there may be hundreds of millions of them.
"""

from __future__ import annotations
