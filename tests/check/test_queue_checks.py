"""Queues of real stores, as they are and with single edits: each code, and nothing else is said."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqtool.check.expected import ExpectedUnits
from rmqtool.check.lag import Lag
from rmqtool.check.queues import check_queues
from rmqtool.dispatch.policy import NEVER
from rmqtool.findings import Severity
from rmqtool.formats import consumequeue, struct_of
from tests.check.store_edits import PREBLANK, EditedStore, known_codes, overwrite
from tests.store.fixture_stores import STORE_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.check.store_edits import DemandCache

QUEUE = "TopicTest/0"  # of plain: 24 units in three files
LAST = 23
OF_QUEUES = ("CQ-", "BQ-", "LMQ-", "ST-SETTINGS")


def codes(store: EditedStore, level: int = 3, *, unclean: bool = False) -> dict[str, int]:
    return store.check_queues(level, unclean=unclean).counts


@pytest.mark.few(12)
# What is dispatched twice into a light queue, the log's check tells: see tests/cli/test_verify_start.
@pytest.mark.parametrize(
    "root", [one for one in STORE_ROOTS if not one.name.startswith("lmqtwice")], ids=lambda root: root.name
)
@pytest.mark.parametrize("with_conf", [True, False], ids=["conf", "inferred"])
def test_stores_of_real_brokers_have_no_damaged_queue(
    root: Path, with_conf: bool, demand_cache: DemandCache
) -> None:
    """What a broker leaves behind is no damage, whether its settings are known or not."""
    demands = demand_cache.of(root.name, with_conf=with_conf)
    log, examined = check_queues(demands.queues())
    assert examined.units > 0
    if with_conf:
        # These demands are of all that a reput reads: copies of older records, too, for which no unit is put.
        copies = {"CQ-MISSING-MSG"} if root.name.startswith("pagecopies") else set()
        assert set(log.counts) == known_codes(root.name, *OF_QUEUES) | copies
    assert log.exit_status() == 0


def zero(store: EditedStore, *numbers: int) -> None:
    for number in numbers:
        store.put_unit(QUEUE, number, (0, 0, 0))


def swap(store: EditedStore, one: int, other: int) -> None:
    first, second = store.unit(QUEUE, one), store.unit(QUEUE, other)
    store.put_unit(QUEUE, one, second)
    store.put_unit(QUEUE, other, first)


def displace(store: EditedStore, first: int) -> None:
    """Leave the unit of one record out and append the others one place early (5.3.2+, lagging queues)."""
    units = [store.unit(QUEUE, number) for number in range(first + 1, LAST + 1)]
    for number, unit in enumerate([*units, (0, 0, 0)], start=first):
        store.put_unit(QUEUE, number, unit)


def other_queue(store: EditedStore) -> None:
    store.put_unit(QUEUE, 5, store.unit("TopicTest/1", 5))


def no_record(store: EditedStore) -> None:
    store.change_unit(QUEUE, 5, by=(1, -1, 0))


def preblank(store: EditedStore, number: int) -> None:
    store.put_unit(QUEUE, number, PREBLANK)


def repeat(store: EditedStore, number: int) -> None:
    store.put_unit(QUEUE, number, store.unit(QUEUE, number - 1))


def put_beyond_and_old(store: EditedStore) -> None:
    """Put a unit that leads beyond the log after the end, and then the last one once more."""
    store.put_unit(QUEUE, LAST + 1, (1 << 30, 100, 0))
    store.put_unit(QUEUE, LAST + 2, store.unit(QUEUE, LAST))


CASES: dict[str, tuple[Callable[[EditedStore], None], dict[str, int], dict[str, int]]] = {
    # edit; what level 1 says; what level 3 says
    "zero unit inside": (
        lambda store: zero(store, 7),
        {"CQ-ZERO-INSIDE": 1},
        {"CQ-ZERO-INSIDE": 1, "CQ-MISSING-MSG": 1},
    ),
    "zero units over a file's end": (
        lambda store: zero(store, 8, 9, 10, 11),
        {"CQ-ZERO-INSIDE": 1},
        {"CQ-ZERO-INSIDE": 1, "CQ-MISSING-MSG": 4},
    ),
    "two zero runs": (
        lambda store: zero(store, 2, 5, 6),
        {"CQ-ZERO-INSIDE": 2},
        {"CQ-ZERO-INSIDE": 2, "CQ-MISSING-MSG": 3},
    ),
    "lag": (lambda store: zero(store, LAST), {}, {"CQ-MISSING-MSG": 1}),
    "negative offset": (
        lambda store: store.put_unit(QUEUE, 5, (-1, 100, 0)),
        {"CQ-BAD-UNIT": 1},
        {"CQ-BAD-UNIT": 1, "CQ-MISSING-MSG": 1},
    ),
    "no size": (
        lambda store: store.put_unit(QUEUE, 5, (100, 0, 0)),
        {"CQ-BAD-UNIT": 1},
        {"CQ-BAD-UNIT": 1, "CQ-MISSING-MSG": 1},
    ),
    "size of a pre-blank unit that is none": (  # a broker keeps it, and all later units
        lambda store: store.put_unit(QUEUE, 5, (0, consumequeue.PREBLANK_SIZE, 7)),
        {"CQ-BAD-UNIT": 1},
        {"CQ-BAD-UNIT": 1, "CQ-MISSING-MSG": 1},
    ),
    "pre-blank unit inside": (
        lambda store: preblank(store, 15),
        {"CQ-PREBLANK-VISIBLE": 1},
        {"CQ-MISSING-MSG": 1, "CQ-PREBLANK-VISIBLE": 1},
    ),
    "pre-blank units though the log begins at 0": (
        lambda store: preblank(store, 0),
        {"CQ-PREBLANK": 1, "CQ-PREBLANK-VISIBLE": 1},
        {"CQ-PREBLANK": 1, "CQ-PREBLANK-VISIBLE": 1, "CQ-MISSING-MSG": 1},
    ),
    "swapped units": (
        lambda store: swap(store, 3, 12),
        {"CQ-PHY-ORDER": 2},
        {"CQ-PHY-ORDER": 2, "CQ-MISPLACED": 2},
    ),
    "one place early": (lambda store: displace(store, 9), {}, {"CQ-MISPLACED": 14, "CQ-MISSING-MSG": 1}),
    "size": (lambda store: store.change_unit(QUEUE, 5, by=(0, -1, 0)), {}, {"CQ-SIZE-TAG": 1}),
    "tags code": (lambda store: store.change_unit(QUEUE, 5, by=(0, 0, 1)), {}, {"CQ-SIZE-TAG": 1}),
    "size over the next record": (
        lambda store: store.change_unit(QUEUE, 5, by=(0, 5000, 0)),
        {"CQ-PHY-ORDER": 1},
        {"CQ-PHY-ORDER": 1, "CQ-SIZE-TAG": 1},
    ),
    "record of another queue": (other_queue, {}, {"CQ-SUPERFLUOUS": 1, "CQ-MISSING-MSG": 1}),
    "inside of a record": (no_record, {}, {"CQ-DANGLING": 1, "CQ-MISSING-MSG": 1}),
    "beyond the log, inside": (
        lambda store: store.change_unit(QUEUE, 5, by=(1 << 40, 0, 0)),
        {"CQ-PHY-ORDER": 1},
        {"CQ-PHY-ORDER": 1, "CQ-DANGLING": 1, "CQ-MISSING-MSG": 1},
    ),
    "left over after the end, beyond the log": (
        lambda store: store.put_unit(QUEUE, LAST + 1, (1 << 30, 100, 0)),
        {},
        {"CQ-STALE-TAIL": 1},
    ),
    "after the end, old": (
        lambda store: repeat(store, LAST + 1),
        {"CQ-PHY-ORDER": 1},
        {"CQ-PHY-ORDER": 1, "CQ-MISPLACED": 1},
    ),
    "after the end, of another queue": (
        lambda store: store.put_unit(QUEUE, LAST + 1, store.unit("TopicTest/1", 5)),
        {"CQ-PHY-ORDER": 1},
        {"CQ-PHY-ORDER": 1, "CQ-SUPERFLUOUS": 1},
    ),
    "after the end, beyond the log and then old": (
        put_beyond_and_old,
        {"CQ-PHY-ORDER": 1},
        {"CQ-STALE-TAIL": 2},
    ),
    "last unit points elsewhere": (
        lambda store: store.change_unit(QUEUE, LAST, by=(3, -3, 0)),
        {},
        {"CQ-DANGLING": 1, "CQ-MISSING-MSG": 1},
    ),
    "whole file gone": (
        lambda store: store.path(QUEUE, 10)[0].unlink(),
        {},
        {"CQ-MISSING-MSG": 10},
    ),
    "whole queue gone": (
        lambda store: shutil.rmtree(store.root / "consumequeue" / QUEUE),
        {},
        {"CQ-MISSING-MSG": 24},
    ),
    "ends inside a unit": (
        lambda store: overwrite(store.path(QUEUE, 20)[0], 200, b"\1\2\3"),
        {"CQ-BAD-UNIT": 1},
        {"CQ-BAD-UNIT": 1},
    ),
}


@pytest.mark.few(6)
@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", CASES)
def test_an_edit_is_found_and_named(name: str, plain: EditedStore) -> None:
    """Each edit gives its codes, with their counts, at level 1 and at level 3."""
    change, alone, complete = CASES[name]
    change(plain)
    assert codes(plain, 1) == alone
    assert codes(plain, 3) == complete


def test_a_finding_says_where(plain: EditedStore) -> None:
    """File, position, queue and offsets of a wrong unit are in its finding, and what was expected."""
    wanted = plain.unit(QUEUE, 15)
    plain.change_unit(QUEUE, 15, by=(0, -1, 0))
    (finding,) = plain.check_queues()
    assert finding.file == "consumequeue/TopicTest/0/00000000000000000200"
    assert (finding.position, finding.length) == (100, 20)
    assert (finding.topic, finding.queue_id, finding.queue_offset) == ("TopicTest", 0, 15)
    assert finding.physical_offset == wanted[0]
    assert (finding.expected, finding.observed) == (wanted[1], wanted[1] - 1)


def test_level_2_says_nothing_of_completeness(plain: EditedStore) -> None:
    """Lag is level 3's, a wrong tags code is level 2's."""
    zero(plain, LAST)
    plain.change_unit(QUEUE, 5, by=(0, 0, 1))
    assert codes(plain, 2) == {"CQ-SIZE-TAG": 1}


def test_lag_of_a_crashed_store_is_a_warning(plain: EditedStore) -> None:
    """The next start dispatches the log's end again; a hole inside stays an error."""
    zero(plain, LAST)
    (lag,) = plain.check_queues(unclean=True)
    assert lag.severity is Severity.WARNING
    assert f"queue offset {LAST}" in lag.message
    assert plain.check_queues().exit_status() == 1
    preblank(plain, 0)
    assert plain.check_queues(unclean=True).exit_status() == 1


def test_what_no_start_dispatches_again_is_no_lag(plain: EditedStore) -> None:
    """Records below the file that recovery begins with get no unit any more."""
    zero(plain, *range(5, LAST + 1))
    end = plain.demands.log_end
    assert plain.check_queues(unclean=True).exit_status() == 0
    assert plain.check_queues(unclean=True, lag=Lag(plain.demands.log_start)).exit_status() == 0
    assert plain.check_queues(unclean=True, lag=Lag(end)).exit_status() == 1


def test_units_beyond_a_log_that_lost_its_end_are_errors(plain: EditedStore) -> None:
    """A left-over of a truncation is a warning, unless the log is known to have been longer."""
    plain.put_unit(QUEUE, LAST + 1, (1 << 30, 100, 0))
    assert plain.check_queues(log_cut=True).counts == {"CQ-DANGLING": 1}
    assert plain.check_queues().exit_status() == 0


def test_units_that_came_after_the_scan_are_no_damage(plain: EditedStore) -> None:
    """While a broker runs, its queues go on after the end of the log as it was read."""
    plain.put_unit(QUEUE, LAST + 1, (plain.demands.log_end, 100, 0))
    task = replace(plain.fresh().queues(unclean=True), live=True)
    assert check_queues(task)[0].counts == {}


def test_an_expired_head_is_told_once(tmp_path: Path, demand_cache: DemandCache) -> None:
    """Units below the log's start are counted in one finding; if they fill the first file, min is wrong."""
    store = EditedStore.copy("expiredhead-5.3.3", tmp_path, demand_cache)
    (expired,) = [finding for finding in store.check_queues() if finding.topic == "TopicTest"][:1]
    assert expired.severity is Severity.INFO
    first = sorted((store.root / "consumequeue" / "TopicTest" / "0").iterdir())[0]
    number = int(first.name) // 20
    before = store.unit("TopicTest/0", number)
    for old in range(number - 10, number):
        store.put_unit("TopicTest/0", old, (max(before[0] - 200 + old - number, 0) - 1000, 1, 0))
    assert "CQ-PHY-ORDER" not in codes(store)
    assert codes(store)["CQ-MIN-WRONG"] == 1


def test_a_recreated_topic_leaves_records_without_units(
    plain: EditedStore, demand_cache: DemandCache
) -> None:
    """Records whose queue offsets come again are no error: their topic was deleted, with its queues."""
    demands = demand_cache.of("plain-5.3.3")
    task = plain.fresh().queues()
    plan = next(check.expected for check in task.queues if (check.topic, check.queue_id) == ("TopicTest", 0))
    assert plan is not None
    old = next(check.expected for check in task.queues if (check.topic, check.queue_id) == ("TopicTest", 1))
    assert old is not None
    runs, older = plan.runs(), old.runs()
    before = older[older["last_end"] <= runs["first_end"][0]][:1]
    before = before if len(before) else older[:1]
    joined = plan.with_runs(np.concatenate([before, runs]))
    expected = ExpectedUnits(joined, demands.blocks)
    assert expected.total == joined.units == plan.units + before["count"][0]
    checks = [
        check._replace(expected=joined) if (check.topic, check.queue_id) == ("TopicTest", 0) else check
        for check in task.queues
    ]
    log, _ = check_queues(replace(task, queues=tuple(checks)))
    assert set(log.counts) == {"CQ-MISSING-MSG"}
    assert log.exit_status() == 0


def test_another_delay_table_is_said_once_for_each_level(demand_cache: DemandCache) -> None:
    """Deliver times of another messageDelayLevel are a setting, not hundreds of wrong units."""
    log, _ = check_queues(demand_cache.of("delaycustom-5.3.3", with_conf=False).queues())
    assert log.counts == {"ST-SETTINGS": 4}
    assert {finding.severity for finding in log} == {Severity.WARNING}


def test_tag_hashes_for_deliver_times_are_errors(tmp_path: Path, demand_cache: DemandCache) -> None:
    """Recovery of 4.9.2-4.9.8 writes the hash of the tags where the deliver time belongs."""
    store = EditedStore.copy("delay-4.9.8", tmp_path, demand_cache)
    for number in range(3):
        offset, size, _ = store.unit("SCHEDULE_TOPIC_XXXX/2", number)
        store.put_unit("SCHEDULE_TOPIC_XXXX/2", number, (offset, size, 2598919))
    log = store.check_queues()
    assert log.counts == {"CQ-SIZE-TAG": 3}
    assert "4.9.2-4.9.8" in next(iter(log)).message


def ext_file(store: EditedStore, start: int) -> Path:
    return store.root / "consumequeue_ext" / "Extended" / "0" / f"{start:020d}"


def test_ext_units_are_found_and_compared(tmp_path: Path, demand_cache: DemandCache) -> None:
    """An ext unit's tags code and time are its record's; an address leads to a unit."""
    store = EditedStore.copy("ext-5.3.3", tmp_path, demand_cache)
    head = struct_of(consumequeue.EXT_HEAD)
    size, tags, time_ms, bits = head.unpack_from(ext_file(store, 0).read_bytes(), 20)
    overwrite(ext_file(store, 0), 20, head.pack(size, tags + 1, time_ms, bits))
    assert codes(store) == {"CQ-EXT-UNIT": 1}
    overwrite(ext_file(store, 0), 20, head.pack(size, tags, time_ms + 1, bits))
    assert codes(store) == {"CQ-EXT-UNIT": 1}
    overwrite(ext_file(store, 0), 20, head.pack(size + 1, tags, time_ms, bits))
    found = codes(store, 1)
    assert found["CQ-EXT-UNIT"] == 1
    assert found["CQ-EXT-DANGLING"] > 1
    overwrite(ext_file(store, 0), 20, head.pack(size, tags, time_ms, bits))
    assert codes(store) == {}


def test_an_address_without_ext_unit_dangles(tmp_path: Path, demand_cache: DemandCache) -> None:
    """A lost ext file leaves addresses of its units; an ext unit that nobody names is an orphan."""
    store = EditedStore.copy("ext-5.3.3", tmp_path, demand_cache)
    offset, size, address = store.unit("Extended/0", 3)
    store.put_unit("Extended/0", 3, (offset, size, address + 1))
    found = codes(store, 1)
    assert found == {"CQ-EXT-DANGLING": 1, "CQ-EXT-ORPHAN": 1}
    store.put_unit("Extended/0", 3, (offset, size, address))
    shutil.rmtree(store.root / "consumequeue_ext" / "Extended" / "0")
    assert codes(store, 1)["CQ-EXT-DANGLING"] > 10


BATCH_FIELDS = {"size": 1, "tagsCode": 2, "storeTimestamp": 3, "batchSize": 5}


@pytest.mark.parametrize("field", BATCH_FIELDS)
def test_batch_units_are_compared(field: str, tmp_path: Path, demand_cache: DemandCache) -> None:
    """Every field of a batch unit is its record's."""
    store = EditedStore.copy("batchcq-5.3.3", tmp_path, demand_cache)
    path = sorted((store.root / "batchconsumequeue" / "Streams" / "0").iterdir())[0]
    unit = struct_of(consumequeue.BATCH_UNIT)
    fields = list(unit.unpack_from(path.read_bytes(), 46))
    fields[BATCH_FIELDS[field]] += 1
    overwrite(path, 46, unit.pack(*fields))
    found = codes(store)
    assert found.pop("BQ-BAD-UNIT") == 1
    assert set(found) <= {"BQ-BASE-GAP", "CQ-PHY-ORDER"}


def test_batch_units_follow_each_other(tmp_path: Path, demand_cache: DemandCache) -> None:
    """Bases are contiguous, constants are constant, and no unit is missing."""
    store = EditedStore.copy("batchcq-5.3.3", tmp_path, demand_cache)
    path = sorted((store.root / "batchconsumequeue" / "Streams" / "0").iterdir())[0]
    data = path.read_bytes()
    overwrite(path, 46, bytes(46))
    assert codes(store) == {"CQ-ZERO-INSIDE": 1, "BQ-BASE-GAP": 1, "CQ-MISSING-MSG": 1}
    overwrite(path, 46, data[46:88] + b"\0\0\0\7")
    assert codes(store, 1) == {"BQ-BAD-UNIT": 1, "BQ-BASE-GAP": 1}
    path.write_bytes(data)
    assert codes(store) == {}


def test_a_queue_of_a_log_that_is_not_shown_is_judged_by_itself(plain: EditedStore) -> None:
    """Without the log nothing lies beyond its end, and pre-blank units say nothing."""
    preblank(plain, 0)
    task = replace(plain.fresh().queues(1), log_start=0, log_end=NEVER)
    assert check_queues(task)[0].counts == {"CQ-PREBLANK": 1}


def test_findings_are_capped_and_counted(plain: EditedStore) -> None:
    """Of many findings the first are kept, all are counted."""
    displace(plain, 2)
    task = replace(plain.fresh().queues(), max_findings=3)
    log, _ = check_queues(task)
    assert log.counts["CQ-MISPLACED"] == 21
    assert [finding.queue_offset for finding in log if finding.code.code == "CQ-MISPLACED"] == [2, 3, 4]


def test_gaps_beyond_the_cap_are_counted(plain: EditedStore) -> None:
    """Of a queue with a gap after every unit a few gaps are shown, all count, and how bad each is counts."""
    intact = {number: plain.unit(QUEUE, number) for number in (3, 5, 7, 9)}
    zero(plain, *intact, LAST)
    task = replace(plain.fresh().queues(unclean=True), max_findings=2)
    log, _ = check_queues(task)
    assert log.counts == {"CQ-ZERO-INSIDE": 4, "CQ-MISSING-MSG": 5}
    shown = [finding for finding in log if finding.code.code == "CQ-MISSING-MSG"]
    assert [(finding.queue_offset, finding.expected) for finding in shown] == [(3, 1), (5, 1)]
    assert log.exit_status() == 1
    # The last one alone is late, no error; not even where none is shown.
    for number, unit in intact.items():
        plain.put_unit(QUEUE, number, unit)
    assert check_queues(replace(plain.fresh().queues(unclean=True), max_findings=0))[0].exit_status() == 0
