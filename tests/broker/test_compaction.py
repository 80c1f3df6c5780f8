"""A released broker on the files of compacted topics: by its store's classes, and as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.broker import jvm, whole_broker
from tests.broker.starts import Case, judged
from tests.broker.stores import fixture_store
from tests.recovery.compactions import SETTINGS, STATES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("version", [one for one in jvm.VERSIONS if one != "4.9.8"])
def test_what_does_not_pair_is_met_as_predicted(version: jvm.Version, tmp_path: Path) -> None:
    cases, store = [], fixture_store(f"plain-{version}")
    for number, state in enumerate(STATES):
        root, conf = store.copy_to(tmp_path / str(number)), tmp_path / f"{number}.conf"
        state.make(root)
        conf.write_text(store.conf.read_text("utf-8") + "\n" + SETTINGS, "utf-8")
        cases.append(Case(state.name, root, conf))
    for state, (case, prediction, found) in zip(STATES, judged(version, cases), strict=True):
        assert (case.name, found) == (state.name, [])
        assert prediction.loads is not bool(state.refused), state.name
        if prediction.loads:
            gone = {label for label in state.files if not (case.root / label).exists()}
            assert gone == state.deleted, state.name


def test_a_whole_broker_ends_its_start(tmp_path: Path) -> None:
    """It loads the store as its classes alone do, and ends where that fails."""
    chosen = [one for one in STATES if one.refused or one.passed_over][1::4]
    assert {bool(one.refused) for one in chosen} == {True, False}
    for number, state in enumerate(chosen):
        (folder := tmp_path / str(number)).mkdir()
        with whole_broker.site(folder, settings=_settings()) as site:
            state.make(site.store)
            with whole_broker.running(site) as process:
                ended = process.poll()
            prediction = predict_recovery(
                open_store(site.store, broker_conf=site.conf), RELEASES[whole_broker.VERSION]
            )
            assert prediction.loads is (ended is None), (state.name, ended)
            assert (ended is None) is not bool(state.refused), (state.name, ended)


def _settings() -> dict[str, str]:
    return dict(line.split("=", 1) for line in SETTINGS.splitlines())
