"""SALVAGE: what can be given back of a damaged log, as a new log on which a broker starts.

``survey`` reads every true record of a copy, ``copies`` puts several copies of one log together, ``evidence``
is what queues that are still there list, ``belief`` holds the fields that no checksum protects against both,
``losses`` says which messages are gone, ``layout`` what takes their place, and ``planning`` makes the plan of
all that (``model``): every byte of the new log, and an account that is proven before it is used. ``making``
encodes records, ``writing`` executes the plan, ``companions`` adds checkpoint and config, ``papers`` what is
told beside.

Records keep their bytes and their place, always. Nothing is signed anew: what is not what its checksum says
goes to ``lost+found/``, and a message that says so stands in its place.
"""

from __future__ import annotations
