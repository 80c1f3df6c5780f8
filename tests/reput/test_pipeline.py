"""The whole pipeline on stores of real brokers: byte for byte what the broker made, and nothing beside it."""

from __future__ import annotations

import os
import stat
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.engine import LocalEngine
from rmqtool.progress import NullProgress
from rmqtool.reput.chain import ScanJob
from rmqtool.reput.pipeline import ReputPlan, ReputResult, emit_task, run_reput
from rmqtool.reput.queues import QueueGeometry
from rmqtool.scan.log_pass import SplitTask, plan_splits, read_split
from rmqtool.store import Store, open_store
from rmqtool.store.staging import StagingArea
from tests.broker.compare import compare_derived
from tests.broker_model.reput import Sizes
from tests.builders import (
    POLICY_5,
    InlineEngine,
    LogBuilder,
    R,
    T,
    build,
    memory_log,
    plan_of,
    read_tree,
    staging,
)
from tests.reput.comparing import assert_as_the_model
from tests.store.fixture_stores import STORE_ROOTS, fixture
from tests.strategies import FILE_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rmqtool.engine import Engine
    from rmqtool.store.staging import StagingHandle

DERIVED = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
by_name = pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)


def store_of(root: Path) -> Store:
    """Open a store as its last broker's: where several had it, the files may not tell which was last."""
    recipe = tomllib.loads((root / "recipe.toml").read_text())
    version = recipe["version"] if "brokers" in recipe else None
    return open_store(root, broker_conf=root / "broker.conf", broker_version=version)


def plan_of_store(store: Store, handle: StagingHandle, **options: Any) -> ReputPlan:  # noqa: ANN401 - fields of the plan
    settings = store.settings
    return ReputPlan(
        store.commitlog,
        settings.commitlog_file_size,
        DispatchPolicy.from_settings(settings),
        handle,
        frozenset({"consumequeue", "index"}),
        QueueGeometry(
            settings.consumequeue_file_size,
            settings.consumequeue_ext_file_size,
            settings.batchconsumequeue_file_size,
        ),
        settings.index_geometry,
        settings.index_timezone,
        **options,
    )


def rebuild(root: Path, out: Path, engine: Engine | None = None, **options: int) -> ReputResult:
    store = store_of(root)
    with StagingArea(out, store.evidence_roots) as area:
        result = run_reput(
            plan_of_store(store, area.handle, **options), engine or InlineEngine(), NullProgress()
        )
        area.publish()
    return result


def reference_of(root: Path) -> Path:
    recipe = tomllib.loads((root / "recipe.toml").read_text())
    return root if recipe["reference"] == "self" else root / recipe["reference"]


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as local:
        yield local


def test_there_are_stores() -> None:
    assert len(STORE_ROOTS) >= 39


@by_name
def test_what_the_broker_made_is_made_byte_for_byte(root: Path, tmp_path: Path, engine: LocalEngine) -> None:
    """All files of all queues and the index, and nothing else; evidence untouched."""
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    out = tmp_path / "out"
    result = rebuild(root, out, engine)
    assert compare_derived(reference_of(root), out) == []
    assert {path.name for path in out.iterdir()} <= set(DERIVED)
    copies = 2 if root.name.startswith("pagecopies") else 0  # read as a start reads them, and put nowhere
    records = tomllib.loads((root / "recipe.toml").read_text())["records"] + copies
    assert result.messages == records or ("expiredhead" in root.name and 0 < result.messages < records)
    made = [path.relative_to(out).parts[0] for path in out.rglob("*") if path.is_file()]
    assert {name: made.count(name) for name in set(made)} == {n: c for n, c in result.files.items() if c}
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.few(4)
@by_name
def test_small_splits_and_tasks_run_twice_change_no_byte(root: Path, tmp_path: Path) -> None:
    """Splits of a thousand bytes, every task of every stage run twice, as after a retry."""
    rebuild(root, tmp_path / "out", InlineEngine(twice=True), split_bytes=1000)
    assert compare_derived(reference_of(root), tmp_path / "out") == []


def test_the_same_twice(tmp_path: Path, engine: LocalEngine) -> None:
    """Names included: two runs are one."""
    root = fixture("indexroll-5.3.3")
    for name in ("one", "two"):
        rebuild(root, tmp_path / name, engine)
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "two")


def test_index_names_are_the_store_times_of_the_messages_that_made_them(tmp_path: Path) -> None:
    rebuild(fixture("indexroll-5.3.3"), tmp_path / "out")
    ours = sorted(path.name for path in (tmp_path / "out" / "index").iterdir())
    theirs = sorted(path.name for path in (fixture("indexroll-5.3.3") / "index").iterdir())
    assert len(ours) == len(theirs) > 2
    assert all(len(name) == 17 for name in ours)
    for one, other in zip(ours, theirs, strict=True):
        assert abs(int(one) - int(other)) < 60_000  # their clock at creation, ours of the message


def test_files_are_sparse_and_have_the_modes_of_a_brokers(tmp_path: Path) -> None:
    """Big files hold only the pages that were written; folders can be entered, files are not executable."""
    log = LogBuilder(FILE_SIZE)
    for number in range(5):
        log.add(queueOffset=100_000 + number)
    sizes = Sizes(consumequeue=6_000_000, slots=5_000_000, items=20_000_000)
    previous = os.umask(0o022)
    try:
        with staging() as handle:
            plan = plan_of(memory_log(log.files()), FILE_SIZE, POLICY_5, handle, sizes=sizes)
            run_reput(plan, InlineEngine(), NullProgress())
            files = [path for path in handle.result.rglob("*") if path.is_file()]
            sizes_on_disk = {path.parent.name: (path.stat().st_size, path.stat().st_blocks) for path in files}
            modes = {stat.S_IMODE(path.stat().st_mode) for path in files}
            folders = {
                stat.S_IMODE(path.stat().st_mode) for path in handle.result.rglob("*") if path.is_dir()
            }
    finally:
        os.umask(previous)
    assert sizes_on_disk["index"][0] == 420_000_040
    assert sizes_on_disk["index"][1] * 512 < 200_000
    assert sizes_on_disk["0"][0] == 6_000_000
    assert sizes_on_disk["0"][1] * 512 < 2_100_000  # the pre-blank units are written
    assert (modes, folders) == ({0o644}, {0o755})


class RecordingEngine(InlineEngine):
    """Keeps the tasks of the last stage, emit."""

    def map(
        self, function: Callable[[T], R], items: Sequence[T], progress: Callable[[int], None] | None = None
    ) -> list[R]:
        self.emitted: list[Any] = list(items)
        return super().map(function, items, progress)


def test_scan_and_emit_tasks_are_harmless_to_repeat(tmp_path: Path) -> None:
    """A second attempt makes block files of its own and gives the same rows; emit overwrites itself."""
    store = store_of(fixture("ext-5.3.3"))
    with StagingArea(tmp_path / "out") as area:
        plan = plan_of_store(store, area.handle)
        task = SplitTask(ScanJob(plan.policy, plan.staging), plan_splits(plan.log, 1 << 62)[0])
        one, two = read_split(task), read_split(task)
        assert {column.path for column in one.block.columns.values()}.isdisjoint(
            column.path for column in two.block.columns.values()
        )
        assert (one.messages, one.log_offset, one.outcome) == (two.messages, two.log_offset, two.outcome)
        for column in one.block.columns:
            assert one.block.read(column).tolist() == two.block.read(column).tolist()

        recording = RecordingEngine()
        run_reput(plan, recording, NullProgress())
        first = read_tree(area.handle.result)
        for again in recording.emitted:
            emit_task(again)
        assert read_tree(area.handle.result) == first


def test_one_part_only() -> None:
    """``rebuild-index`` makes no queues, and a store without index gets none."""
    store = store_of(fixture("plain-5.3.3"))
    with staging() as handle:
        plan = plan_of_store(store, handle)
        run_reput(plan._replace(parts=frozenset({"index"})), InlineEngine(), NullProgress())
        assert {path.name for path in handle.result.iterdir()} == {"index"}
    with staging() as handle:
        plan = plan_of_store(store, handle)
        off = plan.policy._replace(index_enabled=False)
        run_reput(plan._replace(policy=off), InlineEngine(), NullProgress())
        assert {path.name for path in handle.result.iterdir()} == {"consumequeue"}


# --- hostile values ---

HOSTILE_TOPICS = [b"..", b".", b"", b"../../x", b"/etc/x", b"a/b", b"a\x00b", b"\xc0\xae\xc0\xae", b"x" * 127]
HOSTILE_OFFSETS = [-1, -(1 << 63), (1 << 63) - 1, (1 << 63) // 20, 1 << 40, 3, 0, 0, 2]


def test_hostile_topics_lead_nowhere(tmp_path: Path) -> None:
    """No name leaves the output; what can be no directory is said, and the rest is made."""
    log = LogBuilder(FILE_SIZE)
    for number, topic in enumerate(HOSTILE_TOPICS):
        for name in (topic, "订".encode() * 42):
            log.add(topic=name, queueOffset=number, properties=b"KEYS\x01k")
        light = topic.replace(b",", b"")
        names = b"INNER_MULTI_DISPATCH\x01" + light + b",%LMQ%ok\x02INNER_MULTI_QUEUE_OFFSET\x011,1"
        log.add(topic=b"Light", queueOffset=number, properties=names)
    built = assert_as_the_model(log.files(), FILE_SIZE, POLICY_5)
    assert {name.split("/")[0] for name in built.queues} == {"consumequeue"}
    assert all(".." not in name.split("/") and len(name.split("/")) == 4 for name in built.queues)
    unsafe = {topic for report in built.result.chain.reports for topic, _ in report.unsafe}
    assert {"..", ".", "", "../../x", "/etc/x", "a/b", "a\x00b"} <= unsafe
    assert list(tmp_path.iterdir()) == []


def test_absurd_queue_offsets_take_no_room() -> None:
    """Byte addresses wrap around as Java's longs do; each queue has one or two files, whatever they are."""
    log = LogBuilder(FILE_SIZE)
    for number, queue_offset in enumerate(HOSTILE_OFFSETS):
        log.add(queueOffset=queue_offset, topic=b"T%d" % number)
        log.add(queueOffset=queue_offset, topic=b"Same")
    built = assert_as_the_model(log.files(), FILE_SIZE, POLICY_5)
    assert sum(built.result.absurd_units.values()) == 8
    assert sum(map(len, built.queues.values())) < 20 * 200


@pytest.mark.full
def test_thousands_of_queues() -> None:
    """Every queue of a long list gets its units: tables and bundles grow as they must."""
    log = LogBuilder(1 << 20)
    for number in range(1200):
        log.add(topic=b"T%d" % (number // 2), queueId=number % 2, queueOffset=0, body=b"", properties=b"")
    built = assert_as_the_model(log.files(), 1 << 20, POLICY_5)
    assert built.result.queues == len(built.queues) == 1200


def test_index_names_in_utc_of_absurd_times() -> None:
    """Store times before the epoch and beyond all calendars still give names of 17 digits, ascending."""
    log = LogBuilder(FILE_SIZE)
    for number, time in enumerate((0, -1, (1 << 63) - 1, -(1 << 62), 253402300799999, 253402300799999, 5)):
        log.add(queueOffset=number, storeTimestamp=time)
    built = build(memory_log(log.files()), FILE_SIZE, POLICY_5, sizes=Sizes(items=2))
    assert len(built.index_names) == 7 * 3
    assert all(len(name) == 17 and name.isdigit() for name in built.index_names)
