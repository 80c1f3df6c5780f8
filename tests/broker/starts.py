"""Predict starts of stores, then let brokers start on them, and compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.outcomes import differences, missing_units, store_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.recovery import Prediction

_STORES_A_JVM = 120


@dataclass(frozen=True)
class Case:
    """A store that a broker is to start on."""

    name: str
    root: Path
    conf: Path


def judged(
    version: jvm.Version, cases: list[Case], *, count_missing: bool = False
) -> Iterator[tuple[Case, Prediction, list[str]]]:
    """Predict for all, then start the broker on all, many in one JVM, and yield what differs."""
    predictions = []
    for case in cases:
        store = open_store(case.root, broker_conf=case.conf)
        predictions.append((predict_recovery(store, RELEASES[version]), store_files(case.root)))
    rows: list[jvm.Row] = []
    for first in range(0, len(cases), _STORES_A_JVM):
        arguments = [path for case in cases[first : first + _STORES_A_JVM] for path in (case.root, case.conf)]
        rows += jvm.judge(version, "recover", *arguments, timeout=300)
    for case, (prediction, before), row in zip(cases, predictions, rows, strict=True):
        found = differences(prediction, row, before)
        if count_missing and prediction.starts and not found and prediction.cut is not None:
            found += _missing_differ(case, prediction, row)
        yield case, prediction, found


def _missing_differ(case: Case, prediction: Prediction, row: jvm.Row) -> list[str]:
    assert prediction.cut is not None
    observed = missing_units(case.root, case.conf, row, prediction.cut.physical_offset)
    predicted = sum(queue.missing + queue.dropped for queue in prediction.queues)
    return [] if predicted == observed else [f"missing: predicted {predicted}, was {observed}"]
