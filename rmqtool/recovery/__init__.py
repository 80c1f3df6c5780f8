"""PREDICTION: what a broker of a given release does with a store when it starts.

``store_files`` loads as the broker does (``loading``, ``index_files``, ``compaction``, ``first_file``).
``unit_queue`` and ``batch_queue`` are its queues in memory, ``log_walk`` is the log as recovery reads it,
``derived`` takes what is dispatched, ``losses`` counts lost records, missing units and messages that no pull
delivers, ``hazards`` finds what else goes wrong, and ``predict`` runs all of it in the broker's order.
``model`` is the prediction, ``outcome`` its verdict. Nothing is written.

Settings count as the broker's release knows them. With DLedger, ``recheckReputOffsetFromCq``, or
``duplicationEnable`` and ``readUnCommitted`` there is no prediction. It assumes a master without controller.
"""

from __future__ import annotations
