"""What verify finds of random damage; how much of it, by field."""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.projection import json_object
from tests.damage.mutations import Mutation, Mutator
from tests.damage.running import verified
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.check import VerifyReport

STORES = (
    "plain-5.3.3",
    "plain-4.9.8",
    "lmq-4.9.8",
    "ext-5.3.3",
    "batchcq-5.3.3",
    "delay-5.3.3",
    "ipv6-5.3.3",
    "propcrc-5.3.3",
    "segments-4.9.8",
    "transaction-5.3.3",
    "unicode-4.9.8",
    "expiredhead-5.3.3",
    "crash-4.9.8",
)
UNGUARDED = {
    "record: flag": "the client's own; only __CRC32# covers it",
    "record: bornHost address": "only __CRC32# covers it",
    "record: bornHost port": "any 16 bits are a port; only __CRC32# covers it",
    "record: bornTimestamp": "any time from 2010 to 2100; only __CRC32# covers it",
    "record: storeHost address": "only __CRC32# covers it",
    "record: storeHost port": "any 16 bits are a port; only __CRC32# covers it",
    "record: storeTimestamp": "the order of the log, whole seconds of index items; beyond that only __CRC32#",
    "record: reconsumeTimes": "only __CRC32# covers it",
    "record: preparedTransactionOffset": "a commit that was sent back has 0 in it, too",
    "record: sysFlag": "multi tags, unwrap and commit bits, and the compression of plain bodies",
    "record: property others": "shape only; nothing is derived from their text",
    "record: property TAGS": "nothing is derived from the tags of a delayed message",
    "record without unit: queueId": "prepared and rolled back records are put into no queue",
    "record without unit: topic": "rolled back records are not indexed either",
    "record without unit: property KEYS": "rolled back records are not indexed either",
    "record without unit: property UNIQ_KEY": "rolled back records are not indexed either",
    "record+crc: property __CRC32": "without its name it is a property like others",
    "expired index header: beginTimestamp": "its first record has expired: whole seconds only",
    "expired index header: endTimestamp": "its last record has expired: whole seconds only",
    "expired index header: hashSlotCount": "as of other files",
    "index header: hashSlotCount": "4.7.0 counts items in it, later versions slots, an upgrade both",
    "ext unit: after the last": "overwritten by the next unit, never read",
    "checkpoint: physicMsgTimestamp": "earlier times are legal",
    "checkpoint: logicsMsgTimestamp": "earlier times are legal",
    "checkpoint: indexMsgTimestamp": "earlier times are legal",
    "checkpoint: masterFlushedOffset": "of another machine",
    "checkpoint: confirmPhyOffset": "of other machines",
    "checkpoint: logicsPhysicalOffset": "lags in healthy stores; older brokers leave it behind",
    "checkpoint: unused": "never read",
    "expired unit: physicalOffset": "its record has expired",
    "expired unit: size": "its record has expired",
    "expired unit: tagsCode": "its record has expired",
    "side file": "abort, lock: only whether they are there counts; config: JSON, and offsets in their bounds",
    "side file: file": "lock, abort.bak: made anew",
    "config: file": "absent is as legal as present",
    "index: file": "a name is a time of the wall clock; only the order of names counts",
    "compaction: file": "not examined",
}
"""Fields of which a change can go unnoticed, and why: no other byte of the store speaks of them."""

UNGUARDED |= {
    name.replace("record:", "record without unit:"): why
    for name, why in UNGUARDED.items()
    if name.startswith("record:") and name != "record: property TAGS"
}

_SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class Probe:
    """A mutation and what was said of it.

    Attributes:
        store: the fixture.
        mutation: the damage.
        severity: of the worst finding that the undamaged store does not have; None if nothing is said.
        codes: of all such findings.
        seconds: how long it took.
        fields: in which bytes differ.
    """

    store: str
    mutation: Mutation
    severity: str | None
    codes: tuple[str, ...]
    seconds: float
    fields: frozenset[str]

    @property
    def is_missed(self) -> bool:
        """Whether nothing is said of a change that another byte of the store contradicts."""
        return self.severity is None and not self.fields <= UNGUARDED.keys()


class Prober:
    """Damages a copy of a store again and again, and mends it.

    Args:
        name: the fixture.
        folder: where the copy is made.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.root = name, folder / name
        shutil.copytree(fixture(name), self.root, ignore=shutil.ignore_patterns("reference"))
        self.mutator = Mutator(self.root)
        self._base = verified(self.root)

    def probe(self, mutation: Mutation) -> Probe:
        """Verify the damaged copy."""
        for label, data in mutation.contents.items():
            self._put(label, data)
        try:
            start = time.perf_counter()
            report = verified(self.root)
            seconds = time.perf_counter() - start
        finally:
            for label in mutation.contents:
                self._put(label, self.mutator.files.get(label))
        severity, codes = self._news(report)
        fields = frozenset(self.mutator.fields_changed(mutation))
        return Probe(self.name, mutation, severity, codes, seconds, fields)

    def _put(self, label: str, data: bytes | None) -> None:
        path = self.root / label
        if data is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _news(self, report: VerifyReport) -> tuple[str | None, tuple[str, ...]]:
        """Return the worst severity, and the codes, of what the undamaged store does not have."""
        before, after = self._base.findings, report.findings
        codes = tuple(
            sorted(code for code, count in after.counts.items() if count != before.counts.get(code))
        )
        gone = tuple(sorted(before.counts.keys() - after.counts.keys()))
        known = [json_object(finding) for finding in before]
        news = {finding.severity.value for finding in after if json_object(finding) not in known}
        worst = next((severity for severity in _SEVERITIES if severity in news), None)
        return worst or ("info" if codes or gone else None), codes + gone


def probes(folder: Path, seed: int, count: int, stores: tuple[str, ...] = STORES) -> Iterator[Probe]:
    """Yield ``count`` probes, every target of every store about as often."""
    chance = random.Random(seed)
    probers = [Prober(name, folder) for name in stores]
    targets = [(prober, target) for prober in probers for target in prober.mutator.targets]
    done = 0
    while done < count:
        chance.shuffle(targets)
        for prober, target in targets:
            mutation = prober.mutator.mutate(target, chance)
            if mutation is not None:
                yield prober.probe(mutation)
                done += 1
            if done == count:
                return
