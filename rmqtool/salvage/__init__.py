"""SALVAGE: what can be given back of a damaged log, as a new log on which a broker starts.

``survey`` reads every true record of a copy (``rows``, ``marks``), ``copies`` puts several copies of one log
together, ``evidence`` is what queues that are still there list, ``belief`` holds the fields that no checksum
protects against both (``chains``, ``stale``, ``claims``, with ``causes`` of leaving a record out), ``losses``
says which messages are gone, ``layout`` what takes their place (``ground``, ``waiting``, ``light``), and
``planning`` makes the plan of all that (``model``): every byte of the new log, and an account that is proven
before it is used (``accounts``). ``gathering`` goes from stores to a plan. ``making`` encodes records,
``planned`` is the new log before anybody wrote it, ``writing`` writes it, ``derived`` makes queues and index
over it, ``companions`` adds checkpoint and config, ``compaction`` the logs of compacted topics, ``papers``
what is told beside.

Records keep their bytes and their place, always. Nothing is signed anew: what is not what its checksum says
goes to ``lost+found/``, and a message that says so stands in its place.
"""

from __future__ import annotations
