"""Index files of real stores, as they are and with single edits: each code, and nothing else is said."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqtool.check.index import check_index
from rmqtool.findings import Severity
from rmqtool.formats.index import SLOT_SIZE, item_position, slot_position
from rmqtool.store.geometry import Geometry
from tests.check.store_edits import EditedStore, change_header, known_codes, overwrite
from tests.store.fixture_stores import STORE_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.check.store_edits import DemandCache

OF_LAYOUT = {"IX-UNUSED"}
ITEM = 9  # an item that is neither first nor last of its file, nor of its message
KEY_HASH, PHYSICAL_OFFSET, TIME_DIFF, PREVIOUS = range(4)
BEGIN_TIME, END_TIME, BEGIN_PHY, END_PHY, SLOT_COUNT, INDEX_COUNT = range(6)


def codes(store: EditedStore, level: int = 3, *, unclean: bool = False) -> dict[str, int]:
    return store.check_index(level, unclean=unclean).counts


@pytest.mark.few(12)
@pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)
@pytest.mark.parametrize("with_conf", [True, False], ids=["conf", "inferred"])
def test_indexes_of_real_brokers_are_not_damaged(
    root: Path, with_conf: bool, demand_cache: DemandCache
) -> None:
    """What a broker leaves behind is no damage, whether its settings are known or not."""
    log, _ = check_index(demand_cache.of(root.name, with_conf=with_conf).index())
    if with_conf:
        assert set(log.counts) == known_codes(root.name, "IX-") - OF_LAYOUT
    assert log.exit_status() == 0


def change_item(store: EditedStore, field: int, by: int, item: int = ITEM, file: int = 4) -> None:
    path = store.index_paths[file]
    fields = store.item(path, item)
    fields[field] += by
    store.put_item(path, item, fields)


def break_slot(store: EditedStore) -> None:
    path = store.index_paths[4]
    slot = store.item(path, ITEM)[KEY_HASH] % 25
    overwrite(path, slot_position(slot), (1000).to_bytes(SLOT_SIZE, "big"))


def point_upward(store: EditedStore) -> None:
    path = store.index_paths[4]
    fields = store.item(path, ITEM)
    fields[PREVIOUS] = ITEM
    store.put_item(path, ITEM, fields)


def use_item_zero(store: EditedStore) -> None:
    store.put_item(store.index_paths[4], 0, [1, 2, 3, 4])


def hide_last_item(store: EditedStore) -> None:
    change_header(store.index_paths[-1], INDEX_COUNT, -1)


def rename_first_behind(store: EditedStore) -> None:
    first = store.index_paths[0]
    first.rename(first.with_name("20991231000000000"))


def copy_file(store: EditedStore) -> None:
    shutil.copy(store.index_paths[3], store.index_paths[3].with_name("20991231000000000"))


CASES: dict[str, tuple[Callable[[EditedStore], None], set[str], set[str]]] = {
    # edit; what level 1 says; what level 3 says
    "hash": (
        lambda store: change_item(store, KEY_HASH, 25),
        set(),
        {"IX-WRONG", "IX-MISSING"},
    ),
    "hash of another slot": (
        lambda store: change_item(store, KEY_HASH, 1),
        {"IX-CHAIN"},
        {"IX-CHAIN", "IX-WRONG", "IX-MISSING"},
    ),
    "negative hash": (
        lambda store: change_item(store, KEY_HASH, -(1 << 31)),
        {"IX-WRONG", "IX-CHAIN"},
        {"IX-WRONG", "IX-CHAIN", "IX-MISSING"},
    ),
    "offset inside a record": (
        lambda store: change_item(store, PHYSICAL_OFFSET, 1),
        {"IX-ORDER"},  # the next item is of the same record
        {"IX-ORDER", "IX-DANGLING", "IX-MISSING"},
    ),
    "offset beyond the log": (
        lambda store: change_item(store, PHYSICAL_OFFSET, 1 << 40),
        {"IX-ORDER"},
        {"IX-ORDER", "IX-DANGLING", "IX-MISSING"},
    ),
    "time difference": (
        lambda store: change_item(store, TIME_DIFF, 7),
        set(),
        {"IX-WRONG"},
    ),
    "chain skips": (
        lambda store: change_item(store, PREVIOUS, 1),
        {"IX-CHAIN"},
        {"IX-CHAIN"},
    ),
    "chain turns round": (point_upward, {"IX-CHAIN"}, {"IX-CHAIN"}),
    "slot": (break_slot, {"IX-SLOT"}, {"IX-SLOT"}),
    "item 0": (use_item_zero, {"IX-COUNT"}, {"IX-COUNT"}),
    "count too low": (
        hide_last_item,
        {"IX-COUNT", "IX-SLOT"},
        {"IX-COUNT", "IX-SLOT", "IX-GONE"},
    ),
    "count too high": (
        lambda store: change_header(store.index_paths[4], INDEX_COUNT, 1000),
        {"IX-COUNT"},
        {"IX-COUNT"},
    ),
    "begin offset": (
        lambda store: change_header(store.index_paths[4], BEGIN_PHY, 1),
        {"IX-HEADER"},
        {"IX-HEADER"},
    ),
    "end offset": (
        lambda store: change_header(store.index_paths[4], END_PHY, 1),
        {"IX-HEADER"},
        {"IX-HEADER"},
    ),
    "begin time": (
        lambda store: change_header(store.index_paths[4], BEGIN_TIME, -5000),
        {"IX-HEADER"},
        {"IX-HEADER"},
    ),
    "end time": (
        lambda store: change_header(store.index_paths[4], END_TIME, 5000),
        {"IX-HEADER"},
        {"IX-HEADER", "IX-WRONG"},  # the next file's first item is measured from it
    ),
    "slot count": (
        lambda store: change_header(store.index_paths[4], SLOT_COUNT, 100),
        {"IX-HEADER"},
        {"IX-HEADER"},
    ),
    "names out of order": (rename_first_behind, {"IX-NAME-ORDER"}, {"IX-NAME-ORDER"}),
    "file copied": (copy_file, {"IX-NAME-ORDER"}, {"IX-NAME-ORDER", "IX-SUPERFLUOUS", "IX-DUP"}),
    "file inside gone": (lambda store: store.index_paths[4].unlink(), set(), {"IX-GONE"}),
    "first file gone": (lambda store: store.index_paths[0].unlink(), set(), {"IX-GONE"}),
    "last file gone": (lambda store: store.index_paths[-1].unlink(), set(), {"IX-GONE"}),
}
NOT_EXACT = {"end time", "file copied"}
"""Cases in which the last code depends on how messages fall into seconds and files."""


@pytest.mark.few(14)
@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", CASES)
def test_an_edit_is_found_and_named(name: str, plain: EditedStore) -> None:
    """Each edit gives its codes at level 1 and at level 3."""
    change, alone, complete = CASES[name]
    change(plain)
    assert set(codes(plain, 1)) == alone
    found = set(codes(plain, 3))
    assert found == complete or (name in NOT_EXACT and alone <= found <= complete)


def test_a_finding_says_where(plain: EditedStore) -> None:
    """File, position, and the record's place are in the finding of a wrong item."""
    path = plain.index_paths[4]
    change_item(plain, TIME_DIFF, 7)
    (finding,) = plain.check_index()
    assert finding.file == f"index/{path.name}"
    assert finding.position == item_position(25, ITEM)
    assert finding.physical_offset == plain.item(path, ITEM)[PHYSICAL_OFFSET]
    assert f"item {ITEM} " in finding.message


def test_an_index_that_starts_later_is_a_warning(plain: EditedStore) -> None:
    """After a crash all files may be deleted, and only the log's end be dispatched again."""
    for path in plain.index_paths[:5]:
        path.unlink()
    log = plain.check_index()
    (gone,) = log
    assert gone.physical_offset == 0
    assert gone.expected == log.counts["IX-GONE"] == 5 * 39
    assert gone.severity is Severity.WARNING


def test_a_message_that_was_dispatched_again_is_a_warning(plain: EditedStore) -> None:
    """A restart indexes the last message once more; the broker finds it twice, and nothing is lost."""
    paths = plain.index_paths
    last = paths[-1]
    count = int.from_bytes(last.read_bytes()[36:40], "big")
    repeated = plain.item(last, count - 1)
    slot = repeated[KEY_HASH] % 25
    plain.put_item(last, count, [*repeated[:PREVIOUS], count - 1])
    overwrite(last, slot_position(slot), count.to_bytes(SLOT_SIZE, "big"))
    change_header(last, INDEX_COUNT, 1)
    log = plain.check_index()
    assert log.counts == {"IX-DUP": 1}
    assert log.exit_status() == 0


def test_a_put_that_was_torn_by_a_crash_is_a_warning(plain: EditedStore) -> None:
    """In the last file of an unclean store an item may be written that the header does not count."""
    hide_last_item(plain)
    assert plain.check_index().exit_status() == 1
    assert plain.check_index(unclean=True).exit_status() == 0


def test_items_beyond_the_log_are_errors_of_a_clean_store_only(plain: EditedStore) -> None:
    """An unclean start deletes files that are not full, and what they point at was never flushed."""
    last = int.from_bytes(plain.index_paths[-1].read_bytes()[36:40], "big") - 1
    change_item(plain, PHYSICAL_OFFSET, 1 << 40, item=last, file=-1)
    change_header(plain.index_paths[-1], END_PHY, 1 << 40)
    clean, unclean = plain.check_index(), plain.check_index(unclean=True)
    assert clean.counts["IX-DANGLING"] == unclean.counts["IX-DANGLING"] == 1
    severities = {one.severity for one in unclean if one.code.code == "IX-DANGLING"}
    assert severities == {Severity.WARNING}
    assert (clean.exit_status(), unclean.exit_status()) == (1, 0)
    change_item(plain, PHYSICAL_OFFSET, 1 << 40)
    assert plain.check_index(unclean=True).exit_status() == 1


def test_items_of_records_that_a_truncation_left_are_a_warning(plain: EditedStore) -> None:
    """A broker reads nothing after the log's end, so it leaves these items out as if they were not there."""
    last = int.from_bytes(plain.index_paths[-1].read_bytes()[36:40], "big") - 1
    end = plain.demands.log_end
    beyond = end + 10 - plain.item(plain.index_paths[-1], last)[PHYSICAL_OFFSET]
    change_item(plain, PHYSICAL_OFFSET, beyond, item=last, file=-1)
    change_header(plain.index_paths[-1], END_PHY, beyond)
    task = plain.fresh().index()
    assert check_index(replace(task, stale_stop=end + 10))[0].exit_status() == 1
    log, _ = check_index(replace(task, stale_stop=end + 11))
    assert log.counts["IX-DANGLING"] == 1
    assert log.exit_status() == 0


@pytest.mark.parametrize("inserted", [True, False], ids=["beside its own", "in its place"])
def test_an_item_of_what_a_start_has_cut_is_a_warning(plain: EditedStore, inserted: bool) -> None:
    """Between items whose entries follow each other it is left over; where an entry lacks, it has rotted."""
    path = plain.index_paths[-1]
    if inserted:
        for item in range(int.from_bytes(path.read_bytes()[36:40], "big") - 1, ITEM - 1, -1):
            plain.put_item(path, item + 1, plain.item(path, item))
        change_header(path, INDEX_COUNT, 1)
    change_item(plain, KEY_HASH, 1, file=-1)
    found = [one for one in plain.check_index() if one.code.code == "IX-WRONG"]
    assert [one.severity for one in found] == [Severity.WARNING if inserted else Severity.ERROR]


def test_a_running_broker_appends_meanwhile(plain: EditedStore) -> None:
    """Items and slots that came since the header was read are no damage."""
    hide_last_item(plain)
    task = replace(plain.fresh().index(unclean=True), live=True)
    log, _ = check_index(task)
    assert {finding.severity for finding in log} <= {Severity.INFO, Severity.WARNING}
    assert {finding.code.code for finding in log if finding.severity is Severity.WARNING} == {"IX-GONE"}


def test_files_of_another_number_of_slots_are_read_by_their_own(plain: EditedStore) -> None:
    """A wrong maxHashSlotNum is told by the layout; nothing else is wrong with them."""
    log, examined = check_index(replace(plain.fresh().index(), geometry=Geometry(30, 39)))
    assert log.counts == {}
    assert examined.items > 0


def test_a_file_that_proves_no_geometry_is_not_read_by_a_wrong_one(plain: EditedStore) -> None:
    """What is assumed where nothing is known says nothing of a file of another size."""
    task = replace(plain.fresh().index(), geometry=Geometry(5_000_000, 20_000_000), geometry_known=False)
    log, examined = check_index(task)
    assert log.counts == {}
    assert examined.index_files == 12


def test_an_index_that_is_switched_off_demands_nothing(plain: EditedStore) -> None:
    """With messageIndexEnable=false old files are looked at on their own."""
    for path in plain.index_paths[:5]:
        path.unlink()
    task = replace(plain.fresh().index(), index_enabled=False)
    assert check_index(task)[0].counts == {}


def test_a_header_without_items_is_zero_or_the_end_of_the_file_before(
    tmp_path: Path, demand_cache: DemandCache
) -> None:
    """The header of a file that was created and not used is checked too."""
    store = EditedStore.copy("indexroll-5.3.3", tmp_path, demand_cache)
    unused = store.index_paths[-1]
    for field in (BEGIN_TIME, END_PHY, SLOT_COUNT):
        change_header(unused, field, 1)
        assert set(codes(store)) == {"IX-HEADER", "IX-HDR-TIME"}
        change_header(unused, field, -1)
    assert set(codes(store)) == {"IX-HDR-TIME"}


def test_a_short_file_is_read_as_zeros(plain: EditedStore) -> None:
    """A broker extends a short file; what is not there are items of zeros."""
    path = plain.index_paths[-2]
    path.write_bytes(path.read_bytes()[: item_position(25, 30)])
    found = codes(plain)
    assert found["IX-CHAIN"] > 0
    assert found["IX-GONE"] == found["IX-WRONG"] == 10  # zeros are no keys of the record at 0


def test_findings_are_capped_and_counted(plain: EditedStore) -> None:
    """Of many findings the first are kept, all are counted."""
    for item in range(3, 20):
        change_item(plain, TIME_DIFF, 7, item=item)
    task = replace(plain.fresh().index(), max_findings=3)
    log, _ = check_index(task)
    assert log.counts["IX-WRONG"] == 17
    assert len([one for one in log if one.code.code == "IX-WRONG"]) == 3
