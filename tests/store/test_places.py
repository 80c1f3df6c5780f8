"""PATH is recognised by its place and its bytes, in every form that users have it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.io import location_of
from rmqtool.store import PathKind, open_store
from rmqtool.store.kinds import QUEUE_KINDS
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = fixture("plain-4.9.8")


def _first(pattern: str, root: Path = PLAIN) -> Path:
    return min(root.glob(pattern))


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        (".", PathKind.STORE),
        ("commitlog", PathKind.COMMITLOG),
        ("commitlog/*", PathKind.COMMITLOG),
        ("consumequeue", PathKind.CONSUMEQUEUE),
        ("consumequeue/Orders", PathKind.CONSUMEQUEUE),
        ("consumequeue/Orders/0", PathKind.CONSUMEQUEUE),
        ("consumequeue/Orders/0/*", PathKind.CONSUMEQUEUE),
        ("index", PathKind.INDEX),
        ("index/*", PathKind.INDEX),
        ("checkpoint", PathKind.CHECKPOINT),
    ],
)
def test_by_place(pattern: str, kind: PathKind) -> None:
    """A part knows the store around it: settings are inferred from the whole."""
    store = open_store(PLAIN if pattern == "." else _first(pattern))
    assert store.kind is kind
    assert store.root == location_of(PLAIN)
    assert store.settings.index_geometry.slots == 25
    assert store.settings.commitlog_file_size == 8192
    shown = {
        PathKind.COMMITLOG: bool(store.commitlog.segments),
        PathKind.CONSUMEQUEUE: bool(store.topics()),
        PathKind.INDEX: bool(store.index_files),
        PathKind.CHECKPOINT: store.checkpoint is not None,
    }
    assert all(present == (kind in {part, PathKind.STORE}) for part, present in shown.items())


def test_parts_of_queues_know_topic_and_queue() -> None:
    topic = open_store(PLAIN / "consumequeue/Orders")
    assert {queue.topic for queue in topic.queues()} == {"Orders"}
    assert [queue.queue_id for queue in topic.queues()] == [
        queue.queue_id for queue in open_store(PLAIN).queues(topic="Orders")
    ]
    one = list(open_store(PLAIN / "consumequeue/Orders/0").queues())
    assert [(queue.topic, queue.queue_id) for queue in one] == [("Orders", 0)]
    file = _first("consumequeue/Orders/0/*")
    (alone,) = open_store(file).queues()
    assert [segment.path for segment in alone.files] == [location_of(file)]
    assert open_store(file).queue("Orders", 0) is not None
    assert open_store(file).queue("Orders", 1) is None


def test_one_queue_without_listing_all() -> None:
    store = open_store(PLAIN)
    found = store.queue("Orders", 0)
    assert found is not None
    assert found.files.segments[0].label == f"consumequeue/Orders/0/{0:020d}"
    assert store.queue("Orders", 99) is None
    assert store.queue("../commitlog", 0) is None


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("commitlog/*", PathKind.COMMITLOG),
        ("consumequeue/Orders/0/*", PathKind.CONSUMEQUEUE),
        ("index/*", PathKind.INDEX),
        ("checkpoint", PathKind.CHECKPOINT),
    ],
)
def test_by_bytes(tmp_path: Path, pattern: str, kind: PathKind) -> None:
    copy = tmp_path / "evidence.bin"
    shutil.copy(_first(pattern), copy)
    store = open_store(copy)
    assert (store.kind, store.root) == (kind, None)


@pytest.mark.parametrize(
    ("name", "pattern", "kind"),
    [
        ("batchcq-5.3.3", "batchconsumequeue/*/*/*", PathKind.BATCHCONSUMEQUEUE),
        ("ext-4.9.8", "consumequeue_ext/*/*/*", PathKind.CONSUMEQUEUE_EXT),
    ],
)
def test_rarer_files_by_bytes(tmp_path: Path, name: str, pattern: str, kind: PathKind) -> None:
    shutil.copy(_first(pattern, fixture(name)), tmp_path / "x")
    assert open_store(tmp_path / "x").kind is kind


@pytest.mark.parametrize("part", ["commitlog", "index", "consumequeue/Orders/0"])
def test_renamed_directories_by_their_files(tmp_path: Path, part: str) -> None:
    shutil.copytree(PLAIN / part, tmp_path / "moved")
    store = open_store(tmp_path / "moved")
    assert store.kind == part.partition("/")[0]
    queues = [len(queue.files) for queue in store.queues()]
    assert len(store.commitlog) + len(store.index_files) + sum(queues) == len(list((PLAIN / part).iterdir()))


def test_a_renamed_queue_tree_with_its_type(tmp_path: Path) -> None:
    shutil.copytree(PLAIN / "consumequeue", tmp_path / "cq")
    with pytest.raises(EnvironmentFailureError, match="--type"):
        open_store(tmp_path / "cq")
    whole = open_store(tmp_path / "cq", kind="consumequeue")
    assert whole.topics() == open_store(PLAIN).topics()
    topic = open_store(tmp_path / "cq/Orders", kind="consumequeue")
    assert [queue.topic for queue in topic.queues()] == [None] * len(
        list((PLAIN / "consumequeue/Orders").iterdir())
    )


def test_the_type_overrides_what_is_there() -> None:
    store = open_store(_first("index/*"), kind="commitlog")
    assert store.kind is PathKind.COMMITLOG
    assert len(store.commitlog) == 1


@pytest.mark.parametrize("name", ["commitlog", "index"])
def test_a_topic_called_like_a_directory_does_not_mislead(tmp_path: Path, name: str) -> None:
    (tmp_path / "consumequeue" / name / "0").mkdir(parents=True)
    assert open_store(tmp_path / "consumequeue").kind is PathKind.CONSUMEQUEUE


def test_what_is_no_store_is_named_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "random").write_bytes(bytes(range(256)) * 5 + b"x")
    (tmp_path / "zeros").write_bytes(bytes(4096))
    (tmp_path / "nothing").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("empty", "random", "zeros", "nothing", "fifo", "device", "absent"):
        with pytest.raises(EnvironmentFailureError, match=name) as failure:
            open_store(tmp_path / name)
        assert "give" in str(failure.value) or "--type" in str(failure.value)


def test_a_type_that_cannot_be_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="checkpoint"):
        open_store(PLAIN / "index", kind="checkpoint")
    with pytest.raises(UsageError, match="store root"):
        open_store(PLAIN / "checkpoint", kind="store")


def test_a_queue_kind_that_is_not_there_is_empty() -> None:
    store = open_store(fixture("noindex-4.9.8"))
    assert store.index_files == ()
    assert [list(store.queues(kind)) for kind in QUEUE_KINDS[1:]] == [[], []]


def test_several_log_paths(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(PLAIN, root)
    disks = [tmp_path / "disk1", tmp_path / "disk2"]
    for number, file in enumerate(sorted((root / "commitlog").iterdir())):
        disks[number % 2].mkdir(exist_ok=True)
        file.rename(disks[number % 2] / file.name)
    (root / "commitlog").rmdir()
    paths = ",".join(map(str, disks))
    for given in (f"storePathCommitLog={paths}", f"storePathCommitLog={disks[0]}"):
        properties = [given] + ([f"readOnlyCommitLogStorePaths={disks[1]}"] if "," not in given else [])
        store = open_store(root, properties=properties)
        assert len(store.commitlog) == len(open_store(PLAIN).commitlog)
        assert list(store.commitlog.gaps(store.settings.commitlog_file_size)) == []
        assert set(disks) <= set(store.evidence_roots)


def test_a_log_elsewhere_makes_an_empty_directory_a_root(tmp_path: Path) -> None:
    store = open_store(tmp_path, properties=[f"storePathCommitLog={PLAIN / 'commitlog'}"])
    assert store.kind is PathKind.STORE
    assert store.commitlog.segments


def test_a_copy_is_not_mixed_with_the_live_store_of_its_conf(tmp_path: Path) -> None:
    """The conf names the live paths; the copy's own log is meant."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    shutil.copytree(PLAIN, live)
    shutil.copytree(PLAIN, copy)
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathRootDir={live}\nstorePathCommitLog={live}/commitlog\n")
    assert open_store(copy, broker_conf=conf).commitlog.directories == (location_of(copy / "commitlog"),)
    assert open_store(live, broker_conf=conf).commitlog.directories == (location_of(live / "commitlog"),)
    conf.write_text(f"storePathRootDir={live}\nstorePathCommitLog=/elsewhere/commitlog\n")
    assert open_store(copy, broker_conf=conf).commitlog.directories == (location_of(copy / "commitlog"),)


def test_epochs_elsewhere_are_those_of_the_setting(tmp_path: Path) -> None:
    """A copy has its own, or those beside it, where its broker.conf names the live paths."""
    live, copy, elsewhere = tmp_path / "live", tmp_path / "copy", tmp_path / "epochs" / "one"
    for root in (live, copy):
        shutil.copytree(PLAIN, root)
    elsewhere.parent.mkdir()
    elsewhere.write_text("2\n0\n1-0\n2-404\n")
    (live / "within").write_text("1\n0\n5-0\n")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathRootDir={live}\nstorePathEpochFile={elsewhere}\n")
    store = open_store(live, broker_conf=conf)
    assert (store.epochs, store.confirm_offset) == ({1: 0, 2: 404}, 0)
    assert store.directories == (str(location_of(live)), str(location_of(elsewhere)))
    assert open_store(live).epochs is None
    assert open_store(copy, properties=[f"storePathEpochFile={elsewhere}"]).epochs == {1: 0, 2: 404}
    (copy / "epochFileCheckpoint").write_text("1\n0\n1-0\n")
    assert open_store(copy, broker_conf=conf).epochs == {1: 0}
    conf.write_text(f"storePathRootDir={live}\nstorePathEpochFile={live}/within\n")
    assert open_store(live, broker_conf=conf).epochs == {5: 0}
    shutil.copyfile(live / "within", copy / "within")
    (copy / "within").write_text("1\n0\n6-0\n")
    assert open_store(copy, broker_conf=conf).epochs == {6: 0}


def test_an_empty_path_in_the_list_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="empty"):
        open_store(tmp_path, properties=["storePathCommitLog=/a,,/b"])


@pytest.mark.parametrize("name", ["..", "%LMQ%a\x01b", "x\ny"])
def test_odd_directory_names_do_no_harm(tmp_path: Path, name: str) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "consumequeue" / name / "0").mkdir(parents=True)
    store = open_store(tmp_path)
    assert all(queue.topic == name for queue in store.queues())
