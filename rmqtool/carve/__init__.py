"""CARVE: records out of raw bytes that have no names, laid out as the logs they were.

``images`` reads the images and finds records there (``rmqtool.scan.loose``), within the ``ranges`` that
maps of ddrescue name; ``proving`` proves them, ``logs`` puts together the pieces of one log, ``layout`` finds
the places of all files, and ``writing`` writes them.

A record is *proven* by its magic, its lengths, the CRC of its body and ``__CRC32#`` where it has that; its
place is the one that it names itself. Nothing else is put into a log, and nothing is put anywhere else. What
lies in more than one column of numbers is never an object: there may be hundreds of millions of records.
"""

from __future__ import annotations
