"""CASE: records of runs (their inputs, results, findings and operator), and the check of these records.

A case is a directory of records, ``0001.json`` and so on. Each is a JSON document whose last member is
SHA-256 of all bytes before that member, and each names that of the record before, so that nobody can change,
remove or insert one without a mismatch in its successors. The chain cannot show that its last records were
deleted, or that all of it was written again: note the last digest elsewhere.
"""

from __future__ import annotations
