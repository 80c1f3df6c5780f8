"""Tag items in the checks: each message is judged by itself, with its tag item or without."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqtool.check import expected
from rmqtool.check.expected import IndexCheckTask
from rmqtool.check.index import check_index
from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, TagItems
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.io import location_of
from rmqtool.reput.chain import ScanJob
from rmqtool.reput.indexes import index_stream
from rmqtool.scan.log_pass import Split, SplitTask, read_split
from rmqtool.store.geometry import Geometry
from rmqtool.store.segments import StoreFile
from tests.broker_model.reput import BrokerModel, Sizes
from tests.builders import POLICY_5, LogBuilder, memory_segment, properties, staging
from tests.check.store_edits import DemandCache, EditedStore
from tests.strategies import examples

SIZE = 1 << 16
SIZES = Sizes(slots=7, items=6)
KEY_HASH = 0


def codes(
    log: LogBuilder, turns: tuple[int, ...], gone: set[int], *, demands_tags: bool = True
) -> dict[str, int]:
    """Check the index that brokers by turns make of a log, less some of its files."""
    model = BrokerModel(DispatchPolicy(POLICY_5.release, tag_items=TagItems(turns)), SIZES)
    model.reput(log.files(), SIZE)
    policy = DispatchPolicy(POLICY_5.release, tag_items=ALL_TAG_ITEMS if demands_tags else None)
    segment = memory_segment(bytes(log.data))
    with staging() as handle, tempfile.TemporaryDirectory() as folder:
        report = read_split(SplitTask(ScanJob(policy, handle), Split(segment, 0, segment.stop)))
        files = []
        for number, data in enumerate(model.index_files()):
            path = Path(folder) / f"2026010100000{number:04d}"
            path.write_bytes(data)
            files += [] if number in gone else [StoreFile(location_of(path), f"index/{path.name}", len(data))]
        stream, geometry = index_stream([report.block]), Geometry(SIZES.slots, SIZES.items)
        task = IndexCheckTask(
            tuple(files), geometry, stream, True, log_start=0, log_end=log.place, level=3, unclean=False
        )
        return check_index(task)[0].counts


def log_of(kinds: list[str]) -> tuple[LogBuilder, list[int]]:
    """Write messages with the properties that are named, and return where they lie."""
    log = LogBuilder(SIZE)
    values = {"UNIQ_KEY": "u", "KEYS": "a T#t", "TAGS": "t"}
    made = [properties({name: values[name] for name in kind.split()}) for kind in kinds]
    return log, [log.add(properties=raw, queueOffset=number) for number, raw in enumerate(made)]


KINDS = ["UNIQ_KEY TAGS", "UNIQ_KEY KEYS TAGS", "KEYS TAGS", "TAGS", "UNIQ_KEY", ""]


@examples(80)
@example(["UNIQ_KEY KEYS TAGS", "KEYS TAGS", "KEYS TAGS", "TAGS"], {0, 3}, {1}, 1).via(
    "an empty file after one that is gone"
)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=24),
    st.sets(st.integers(0, 24), max_size=3),
    st.sets(st.integers(0, 12), max_size=3),
    st.sampled_from([1, 3, 1 << 19]),
)
def test_nothing_that_brokers_leave_is_damage(
    kinds: list[str], turning: set[int], gone: set[int], window_rows: int
) -> None:
    """Brokers by turns, files that a crash deleted and nobody made again, however the log is read."""
    log, places = log_of(kinds)
    turns = tuple(sorted({[*places, log.place][min(turn, len(places))] for turn in turning}))
    with mock.patch.object(expected, "WINDOW_ROWS", window_rows):
        found = codes(log, turns, gone)
        assert set(found) <= {"IX-GONE", "IX-TAG-MIX", "IX-HDR-TIME"}
        if not gone:
            assert "IX-GONE" not in found
        if not turns:
            assert "IX-TAG-MIX" not in found


@pytest.mark.few(2)
@pytest.mark.parametrize("window_rows", [1, 3, 1 << 19])
def test_turns_are_told_once(window_rows: int) -> None:
    """Those that a message with keys shows; of one with nothing but tags nobody can tell."""
    log, places = log_of(["UNIQ_KEY TAGS"] * 9 + ["TAGS"])
    with mock.patch.object(expected, "WINDOW_ROWS", window_rows):
        assert codes(log, (), set()) == {}
        assert codes(log, (0,), set()) == {}
        assert codes(log, (0, places[9]), set()) == {}
        assert codes(log, (places[4],), set()) == {"IX-TAG-MIX": 1}
        assert codes(log, (0, places[4], places[6]), set()) == {"IX-TAG-MIX": 1}


def test_where_no_newer_broker_was_a_tag_item_is_wrong() -> None:
    """It has the hash of no key, or its message has none."""
    log, places = log_of(["UNIQ_KEY TAGS"] * 4 + ["TAGS"])
    assert codes(log, (), set(), demands_tags=False) == {}
    assert codes(log, (places[3],), set(), demands_tags=False) == {"IX-WRONG": 1, "IX-DANGLING": 1}


@pytest.mark.parametrize("name", ["plain-5.4.0", "upgrade533-5.5.1", "handovers-5.5.1"])
def test_a_hole_between_files_is_a_warning(name: str, tmp_path: Path, demand_cache: DemandCache) -> None:
    """From 5.4.0 on a start after a crash leaves one as a rule."""
    store = EditedStore.copy(name, tmp_path, demand_cache)
    before = store.check_index().counts
    store.index_paths[2].unlink()
    log = store.check_index()
    assert log.counts["IX-GONE"] > 10
    assert log.exit_status() == 0
    assert log.counts == before | {"IX-GONE": log.counts["IX-GONE"]}


def test_a_wrong_tag_item_is_named(tmp_path: Path, demand_cache: DemandCache) -> None:
    """Its message has one in its place, so it is none of an older broker."""
    store = EditedStore.copy("plain-5.4.0", tmp_path, demand_cache)
    path = store.index_paths[1]
    fields = store.item(path, 4)
    fields[KEY_HASH] += 25
    store.put_item(path, 4, fields)
    assert store.check_index().counts == {"IX-WRONG": 1}
