"""PIPELINE: plan -> scan -> place -> emit.

``scan`` turns a split of the log into a block file in the staging area and a report (one task a split);
``chain`` follows the broker over damage; ``queues`` and ``indexes`` assign every block its place and write
whole output files (one task a bundle); ``pipeline`` runs the stages on an engine. Rows never travel between
processes, only reports do. ``damage`` names what was skipped, and ``gap_contents`` looks into it.
"""

from __future__ import annotations
