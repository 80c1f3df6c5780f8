"""Evidence of the present queues about a log: each unit names place and size of a message.

A queue is believed about what it lists, if that fits into the log; one that lies only costs a look.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.account.records import Mark, Survey, by_queue, read_record
from rmqtool.derived.queue_files import queue_units
from rmqtool.dispatch.index_keys import of_other_keys
from rmqtool.scan.records import PropertyWitness
from rmqtool.store.broker_json import ConfigFileError, load_broker_json, queue_counts
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.derived.queue_files import LiveUnits
    from rmqtool.store import Store

    Rows = npt.NDArray[Any]

LISTED_ROW = np.dtype(
    [
        ("queue_offset", np.int64),
        ("log_offset", np.int64),
        ("tags_code", np.int64),
        ("size", np.int32),
        ("count", np.int32),  # queue offsets that the unit takes
    ]
)
"""A unit of a queue that is there."""

_NOTHING = np.empty(0, LISTED_ROW)
_CODES = np.iinfo(np.int32)
"""Bounds of a unit's tags code; outside, it is the address of an extension."""
_MOST_COMPARED = 10_000


@dataclass
class QueueEvidence:
    """What queues list.

    Attributes:
        units: by topic and queue id, ``(n,)`` of ``LISTED_ROW`` by queue offset.
        unread: sentences about what could not be read.
        declared: by topic, how many queues ``topics.json`` gives it.
    """

    units: dict[tuple[str, int], Rows] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    declared: dict[str, int] = field(default_factory=dict)

    def of(self, key: tuple[str, int]) -> Rows:
        """Return the units of a queue; none of one that is not there."""
        return self.units.get(key, _NOTHING)

    def at(self, key: tuple[str, int], queue_offsets: npt.NDArray[np.int64]) -> Rows:
        """Return a unit for each queue offset, zeros where the queue has none."""
        listed = self.of(key)
        if np.array_equal(listed["queue_offset"], queue_offsets):  # as it is where nothing is missing
            return listed
        rows = np.zeros(len(queue_offsets), LISTED_ROW)
        if len(listed):
            place = np.minimum(np.searchsorted(listed["queue_offset"], queue_offsets), len(listed) - 1)
            met = listed["queue_offset"][place] == queue_offsets
            rows[met] = listed[place[met]]
        return rows

    def add(self, other: QueueEvidence) -> None:
        """Take over what another copy's queues list, where these have no such queue or fewer units."""
        for key, rows in other.units.items():
            if len(rows) > len(self.of(key)):
                self.units[key] = rows
        self.unread += other.unread
        for topic, queues in other.declared.items():
            self.declared[topic] = max(queues, self.declared.get(topic, 0))


def read_evidence(store: Store) -> QueueEvidence:
    """Read all queues of a store; what cannot be read proves nothing."""
    evidence = QueueEvidence(declared=_declared(store))
    for queue, units in queue_units(store, evidence.unread):
        rows = _listed(units.sane)
        if queue.topic is not None and queue.queue_id is not None and len(rows):
            evidence.units[queue.topic, queue.queue_id] = rows
    return evidence


def _declared(store: Store) -> dict[str, int]:
    if store.root is None:
        return {}
    counts: dict[str, int] = {}
    with suppress(ConfigFileError):  # repair tells of it
        counts = queue_counts(load_broker_json(store.root / "config" / "topics.json"))
    if counts:  # no broker lists the topic of delayed messages
        counts.setdefault(SCHEDULE_TOPIC, store.settings.delay_levels.max_level)
    return counts


def _listed(units: LiveUnits) -> Rows:
    rows = np.empty(len(units.keys), LISTED_ROW)
    columns = units.keys, units.physical_offsets, units.tags_codes, units.sizes, units.messages
    for name, column in zip(LISTED_ROW.names or (), columns, strict=True):
        rows[name] = column
    return np.sort(rows, order="queue_offset", kind="stable")


def confirmed_units(survey: Survey, evidence: QueueEvidence) -> npt.NDArray[np.bool_]:
    """Return which units of a survey a queue lists right there, ``(m,)``."""
    units = survey.units
    confirmed = np.zeros(len(units), bool)
    if not evidence.units or not len(units):
        return confirmed
    starts = np.ascontiguousarray(survey.records["log_offset"])
    sizes = survey.records["total_size"][np.searchsorted(starts, units["log_offset"])]
    for key, rows in zip(survey.queues, by_queue(units, len(survey.queues)), strict=True):
        listed = evidence.at(key, units["queue_offset"][rows])
        here = (listed["size"] > 0) & (listed["log_offset"] == units["log_offset"][rows])
        confirmed[rows[here]] = listed["size"][here] == sizes[rows[here]]
    return confirmed


def mark_contradicted(survey: Survey, evidence: QueueEvidence, store: Store) -> None:
    """Mark records whose properties changed since a unit and the index took tags and keys from them."""
    units, marks = survey.units, survey.records["marks"]
    odd = [np.empty(0, np.int64)]
    for key, rows in zip(survey.queues, by_queue(units, len(survey.queues)), strict=True):
        if key[0] == SCHEDULE_TOPIC or not len(evidence.of(key)):
            continue
        listed = evidence.at(key, units["queue_offset"][rows])
        code, place = listed["tags_code"], units["log_offset"][rows]
        is_code = (code >= _CODES.min) & (code <= _CODES.max) & (listed["log_offset"] == place)
        differs = np.flatnonzero(is_code & (code != units["tags_code"][rows]))
        if not len(differs):
            continue
        records = survey.records[np.searchsorted(survey.records["log_offset"], place[differs])]
        odd.append(place[differs[records["total_size"] == listed["size"][differs]]])
    of_unit = set(np.concatenate(odd)[:_MOST_COMPARED].tolist())
    numbers = np.flatnonzero(marks & np.uint8(Mark.FORM | Mark.ZEROS))
    of_form = set(survey.records["log_offset"][numbers[:_MOST_COMPARED]].tolist())
    doubtful = of_unit | of_form
    of_item = of_other_keys(store, survey.log, doubtful) if doubtful else set()
    for place in doubtful:
        number = int(np.searchsorted(survey.records["log_offset"], place))
        record = read_record(survey.log, survey.records[number])
        against = {PropertyWitness.UNIT} if place in of_unit else set()
        against |= {PropertyWitness.ITEM} if place in of_item else set()
        against |= {PropertyWitness.FORM} if marks[number] & Mark.FORM else set()
        if record is not None and record.change(against):
            marks[number] |= np.uint8(Mark.TORN)
