"""PIPELINE: plan -> scan -> place -> emit.

``chain`` turns a split of the log into a block file in the staging area and a report (one task a split), and
follows the broker over damage; ``queues`` and ``indexes`` assign every block its place, ``emit_queues`` and
``indexes`` write whole output files (one task a bundle); ``pipeline`` runs the stages on an engine. Rows
never travel between processes, only reports do. ``damage`` looks into what was skipped, and names it.

A record on its way: ``chain.BrokerWalk`` reaches it, ``chain.ScanJob`` hands its batch to ``dispatcher``,
which makes units and entries by the rules of ``rmqtool.dispatch``; ``blocks`` keeps them, ``units`` reads
those of a queue, and ``emit_queues`` writes them.
"""

from __future__ import annotations
