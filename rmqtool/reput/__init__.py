"""PIPELINE: plan -> scan -> place -> emit.

``splits`` cuts the log; ``scan`` turns a split into a block file in the staging area and a small report (one
task a split); ``chain`` proves the seams between splits and follows the broker over damage; ``queues`` and
``indexes`` give every block its place and write whole output files (one task a bundle); ``pipeline`` runs the
stages on an engine. Rows never travel between processes, only reports do.
"""

from __future__ import annotations
