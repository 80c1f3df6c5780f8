"""CARVE: records out of raw bytes that have no names, laid out as the logs they were.

``images`` reads what is to be looked through, ``maps`` the maps of ddrescue that say where; ``search`` finds
records there (``rmqtool.scan.loose``), ``proving`` says which of them are what they claim, ``pieces`` which
were written side by side, ``logs`` which belong to one log, ``geometry`` how long the files of a log were,
and ``layout`` what is written where. ``writing`` writes it.

A record is *proven* by its magic, its lengths, the CRC of its body and ``__CRC32#`` where it has that; its
place is the one that it names itself. Nothing else is put into a log, and nothing is put anywhere else. What
lies in more than one column of numbers is never an object: there may be hundreds of millions of records.
"""

from __future__ import annotations
