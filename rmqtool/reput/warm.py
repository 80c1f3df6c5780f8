"""Compile the kernels before workers need them.

Kernels compile at their first call and are then on disk. Without this, every worker of a fresh installation
would compile all of them at the same time.
"""

from __future__ import annotations

import numpy as np

from rmqtool.dispatch.append import append_units, new_state
from rmqtool.dispatch.continuity import BREAK_ROW, Discontinuity, find_breaks, new_progress
from rmqtool.dispatch.grouping import RUN_ROW, measure_runs, order_by_queue
from rmqtool.dispatch.kernels import dispatch
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.dispatch.putkey import new_header, put_keys
from rmqtool.dispatch.queues import QueueTable
from rmqtool.dispatch.rows import ENTRY_ROW, IDLE_ROW, UNIT_ROW, Count
from rmqtool.releases import DEFAULT
from rmqtool.scan.check_kernels import check_records, measure_times
from rmqtool.scan.check_rows import HIT_ROW, MAX_HITS
from rmqtool.scan.kernels import find_record, walk_records
from rmqtool.scan.resync_kernels import walk_over_damage
from rmqtool.scan.rows import GAP_ROW, MESSAGE_ROW, MISMATCH_ROW, Property, rules_of
from rmqtool.scan.transaction_kernels import TRANSACTION_ROW, collect_transactions


def compile_kernels() -> None:
    """Call every kernel of the pipeline with empty arrays of the types it gets at work."""
    buffer = np.empty(1, np.uint8)
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    readable = rules_of(DEFAULT.records)
    walk_records(buffer, 0, 0, 0, 0, 0, 0, readable, 0, rows, values, np.empty(0, MISMATCH_ROW))
    find_record(buffer, 0, 0, 0, 0, 0, readable, rows, values)
    policy = DispatchPolicy()
    queues = QueueTable(policy, bool)
    queues.add(b"warm", 0)
    units, entries, idles = np.empty(0, UNIT_ROW), np.empty(0, ENTRY_ROW), np.empty(0, IDLE_ROW)
    counts, missing = np.zeros(len(Count), np.int64), np.zeros(3, np.int64)
    rules = policy.switches(), policy.delay_table(), policy.tag_turns()
    table = queues.slots, queues.rows, queues.names
    dispatch(buffer, rows, values, 0, *rules, *table, units, entries, idles, counts, missing)
    order, starts = order_by_queue(units, 1)
    measure_runs(units, order, starts, np.empty(1, RUN_ROW))
    numbers = np.empty(0, np.int64)
    append_units(numbers, numbers, numbers, 20, new_state(), np.empty(0, np.bool_))
    put_keys(entries, np.zeros(1, np.int32), new_header(), np.empty(0, np.int32), np.empty(0, np.int32))


def compile_check_kernels() -> None:
    """Call the kernels that the check of a log needs beside those of the pipeline."""
    buffer, rows = np.empty(1, np.uint8), np.empty(0, MESSAGE_ROW)
    check_records(buffer, rows, 0, 0, 0, np.zeros(1, np.int64), np.empty(MAX_HITS, HIT_ROW))
    measure_times(rows, 0, 0)
    values = np.empty((0, len(Property), 2), np.int64)
    passed, gaps = np.empty(0, MISMATCH_ROW), np.empty(0, GAP_ROW)
    walk_over_damage(buffer, 0, 0, 0, 0, 0, 0, rules_of(DEFAULT.records), rows, values, passed, gaps)
    collect_transactions(buffer, rows, values, 0, 0, 0, np.empty(0, TRANSACTION_ROW), 0)
    numbers, totals = np.empty(0, np.int64), np.zeros(len(Discontinuity), np.int64)
    find_breaks(numbers, numbers, 0, new_progress(None), np.empty(0, BREAK_ROW), totals)
