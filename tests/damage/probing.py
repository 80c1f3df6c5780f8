"""What verify finds of random damage; how much of it, by field."""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.damage.mutations import Mutation, Mutator
from tests.damage.running import verified
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.commands.verify.model import VerifyReport

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
    """

    store: str
    mutation: Mutation
    severity: str | None
    codes: tuple[str, ...]
    seconds: float


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
        return Probe(self.name, mutation, severity, codes, seconds)

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
        codes = tuple(sorted(code for code, count in after.counts.items() if count != before.counts.get(code)))
        gone = tuple(sorted(before.counts.keys() - after.counts.keys()))
        known = [finding.to_json() for finding in before]
        news = {finding.severity.value for finding in after if finding.to_json() not in known}
        worst = next((severity for severity in _SEVERITIES if severity in news), None)
        return worst or ("info" if codes or gone else None), codes + gone


def probes(folder: Path, seed: int, count: int, stores: tuple[str, ...] = STORES) -> Iterator[Probe]:
    """Yield ``count`` probes, every target of every store about as often."""
    chance = random.Random(seed)  # noqa: S311
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
