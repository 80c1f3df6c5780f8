"""What a start makes of queues that are gone or after, and how that is told before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.check.lag import check_window
from rmqtool.findings import codes
from rmqtool.recovery.log_recovery import NO_UNITS, window_of
from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import Setting, broker_conf, open_store
from rmqtool.store.broker_conf import Origin
from tests.recovery.logs import FILE_BYTES, MESSAGES_A_FILE, RECORD_BYTES, TinyLog
from tests.recovery.states import FILES

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.recovery import Prediction
    from rmqtool.store import Store

WITH_WINDOW = [name for name, release in RELEASES.items() if release.recover_window]
WITHOUT = ["5.3.3", "5.3.4"]
REACH = (FILES - 10) * FILE_BYTES
BEFORE = (FILES - 10) * MESSAGES_A_FILE
AFTER = 10 * MESSAGES_A_FILE


def _predict(log: TinyLog, name: str, **given: object) -> Prediction:
    return predict_recovery(log.open(**given), RELEASES[name])


def _open(log: TinyLog, name: str, **given: object) -> Store:
    return open_store(log.root, properties=log.settings(**given), broker_version=name)


@pytest.mark.parametrize("name", WITHOUT)
def test_queues_that_are_gone_are_made_anew_by_older_brokers(name: str, tmp_path: Path) -> None:
    """The folk cure was one."""
    (queue,) = _predict(TinyLog(tmp_path, FILES), name).queues
    assert (queue.min_offset, queue.max_offset, queue.missing) == (0, FILES * MESSAGES_A_FILE, 0)


@pytest.mark.parametrize("name", WITH_WINDOW)
def test_queues_that_are_gone_stay_gone_before_the_window(name: str, tmp_path: Path) -> None:
    """All but the last ten files are without units and index entries."""
    prediction = _predict(TinyLog(tmp_path, FILES), name)
    (queue,) = prediction.queues
    assert (queue.min_offset, queue.max_offset) == (BEFORE, FILES * MESSAGES_A_FILE)
    assert (queue.appended, queue.misplaced, queue.missing) == (AFTER, 0, BEFORE)
    assert prediction.missing_index_entries >= 3 * BEFORE
    assert any("commitLogRecoverMaxNum" in text and "rmqtool rebuild" in text for text in prediction.hazards)


@pytest.mark.parametrize("name", WITH_WINDOW)
def test_the_setting_is_a_way_out(name: str, tmp_path: Path) -> None:
    """With as many files as the log has the start makes everything."""
    prediction = _predict(TinyLog(tmp_path, FILES), name, commitLogRecoverMaxNum=FILES)
    (queue,) = prediction.queues
    assert (queue.appended, queue.missing) == (FILES * MESSAGES_A_FILE, 0)
    assert prediction.hazards == ()


@pytest.mark.parametrize("name", WITH_WINDOW)
def test_queues_that_lag_beyond_the_window_get_every_later_unit_in_a_wrong_slot(
    name: str, tmp_path: Path
) -> None:
    """Six messages have units, two get none, and twenty come too early."""
    (queue,) = _predict(TinyLog(tmp_path, FILES).queue(6), name).queues
    assert (queue.found_max_offset, queue.max_offset) == (6, 6 + AFTER)
    assert (queue.appended, queue.misplaced, queue.missing) == (AFTER, AFTER, BEFORE - 6)


@pytest.mark.parametrize("name", WITH_WINDOW)
def test_whole_queues_are_told_not_to_be_deleted(name: str, tmp_path: Path) -> None:
    """A prediction says what the folk cure would do, where the log is longer than the window."""
    (hazard,) = _predict(TinyLog(tmp_path, FILES).queue(), name).hazards
    assert hazard.startswith("Deleting consumequeue/")
    assert f"newest 10 of the log's {FILES} files" in hazard


def test_a_log_within_the_window_has_no_such_hazard(tmp_path: Path) -> None:
    """Ten files are all looked at."""
    assert _predict(TinyLog(tmp_path, 10).queue(), "5.5.1").hazards == ()


@pytest.mark.parametrize("name", [*WITHOUT, *WITH_WINDOW])
def test_verify_tells_of_queues_that_are_gone(name: str, tmp_path: Path) -> None:
    """As an error, with the place from which a start would make units; brokers without a window make all."""
    found = check_window(_open(TinyLog(tmp_path, FILES), name), damaged=True)
    told = [(one.code, one.severity.value, one.physical_offset) for one in found]
    assert told == ([(codes.ST_WINDOW, "error", REACH)] if name in WITH_WINDOW else [])


@pytest.mark.parametrize("name", [*WITHOUT, *WITH_WINDOW])
def test_verify_tells_of_queues_that_lag(name: str, tmp_path: Path) -> None:
    """Where they end, and where the start reads on."""
    log = TinyLog(tmp_path, FILES).queue(6)
    found = check_window(_open(log, name), damaged=False)
    told = [(one.code, one.observed, one.expected) for one in found]
    assert told == ([(codes.CQ_LAG, log.offsets[5] + RECORD_BYTES, REACH)] if name in WITH_WINDOW else [])


@pytest.mark.parametrize("damaged", [False, True])
def test_verify_warns_of_the_folk_cure_only_where_the_queues_are_damaged(
    damaged: bool, tmp_path: Path
) -> None:
    """Nobody deletes queues that are well."""
    found = check_window(_open(TinyLog(tmp_path, FILES).queue(), "5.5.1"), damaged=damaged)
    assert [(one.code, one.severity.value) for one in found] == (
        [(codes.ST_WINDOW, "warning")] if damaged else []
    )


def test_one_queue_within_the_window_is_enough(tmp_path: Path) -> None:
    """The start goes by the queue that ends last; others may be idle for long."""
    window = window_of(_open(TinyLog(tmp_path, FILES).queue(BEFORE + 2), "5.5.1"))
    assert window is not None
    assert window.queue_end is None


def test_a_store_without_queues_has_no_end(tmp_path: Path) -> None:
    """What there is of queues has no unit."""
    window = window_of(_open(TinyLog(tmp_path, FILES).queue(0), "5.5.1"))
    assert window is not None
    assert window.queue_end in {0, NO_UNITS}


# Releases that nobody has released, beside 5.5.1 which reads ten files.
NEXT = {
    "a smaller window": (True, 2, FILES - 2),
    "a larger window": (True, FILES, FILES - 10),
    "no window": (False, 10, FILES - 10),
}


@pytest.mark.parametrize("name", NEXT)
def test_a_next_release_with_other_defaults_hides_no_window_of_its_elders(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the release is open, the candidate that reads least decides, whether it is the newest or not."""
    has_window, files, expected = NEXT[name]
    following = RELEASES["5.5.1"]._replace(name="9.9.9", recover_window=has_window)
    monkeypatch.setitem(RELEASES, following.name, following)
    monkeypatch.setitem(broker_conf._AGE, following.name, len(RELEASES))
    known = broker_conf.DEFINITIONS["commitLogRecoverMaxNum"]
    changed = known._replace(defaults=(*known.defaults, (following.name, files)))
    monkeypatch.setitem(broker_conf.DEFINITIONS, known.name, changed)
    store = _open(TinyLog(tmp_path, FILES), "5.5.1")
    version = Setting(
        broker_conf.BROKER_VERSION, "5.5.1", Origin.INFERRED, candidates=("5.3.3", "5.5.1", following.name)
    )
    monkeypatch.setitem(store.settings._settled, version.name, version)
    window = window_of(store)
    assert window is not None
    assert window.reach == expected * FILE_BYTES
    assert window.release.name == ("9.9.9" if files == 2 else "5.5.1")
    (finding,) = check_window(store, damaged=True)
    assert (finding.code, finding.physical_offset) == (codes.ST_WINDOW, expected * FILE_BYTES)
