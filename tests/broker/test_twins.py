"""A broker whose log lies on two paths loads both files of one name: what start and pulls make of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.actions.foresight import foresee
from rmqtool.outcomes import Action, outcome_of
from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from tests.broker import jvm
from tests.broker.measured import Copy, measured
from tests.broker.starts import Case, judged
from tests.broker.stores import fixture_store
from tests.store.several_paths import Twin, lay_out

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

RULES: list[jvm.Version] = [version for version in jvm.VERSIONS if version != "5.4.0"]
"""Without 5.4.0, which starts by the rules of 5.5."""

TWINS = [
    Twin(number, content, swapped)
    for number in (0, 3, 5, 6)
    for content in ("zeros", "cut", "same")
    for swapped in (False, True)
]


def cases(version: jvm.Version, folder: Path, *, unclean: bool) -> list[Case]:
    fixture, made = fixture_store(f"plain-{version}"), []
    for number, twin in enumerate(TWINS):
        root, conf = fixture.copy_to(folder / f"{number}-{unclean}"), folder / f"{number}-{unclean}.conf"
        lay_out(root, conf, fixture.conf.read_text("utf-8"), twin)
        if unclean:
            (root / "abort").write_text("1")
        made.append(Case(f"{twin}{' killed' if unclean else ''}", root, conf))
    return made


@pytest.mark.parametrize("version", RULES)
def test_a_start_reads_one_after_the_other(version: jvm.Version, tmp_path: Path) -> None:
    every = [*cases(version, tmp_path, unclean=False), *cases(version, tmp_path, unclean=True)]
    results = {case.name: (prediction, found) for case, prediction, found in judged(version, every)}
    assert {name: found for name, (_, found) in results.items() if found} == {}
    cuts = {prediction.cut.physical_offset for prediction, _ in results.values() if prediction.cut}
    assert len(cuts) > 2


@pytest.mark.parametrize("version", RULES)
def test_a_pull_reads_the_first_one(version: jvm.Version, tmp_path: Path) -> None:
    every = cases(version, tmp_path, unclean=False)
    foretold, hazards = {}, []
    for case in every:
        store = rmqtool.open(case.root, broker_conf=case.conf)
        outcomes = foresee(store.files, RELEASES[version], store.verify().findings)
        start = outcome_of(outcomes, Action.START)
        assert start is not None
        foretold[case.name] = start.served, start.wrong
        prediction = predict_recovery(store.files, RELEASES[version])
        hazards += [one for one in prediction.hazards if "comes first" in one]
    copies = [Copy(case.root, case.conf, f"plain-{version}") for case in every]
    found = [result.outcome for result in measured(copies, version)]
    assert all(one.starts for one in found)
    assert {case.name: (one.served, one.wrong) for case, one in zip(every, found, strict=True)} == foretold
    assert hazards
