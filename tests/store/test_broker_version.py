"""Which broker wrote a store last: said with its reason, and no more exactly than the files tell."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import time
from typing import TYPE_CHECKING

import pytest

from rmqtool.releases import NEWEST, RELEASES
from rmqtool.store import Origin, open_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLD, NEW = fixture("plain-4.9.8"), fixture("plain-5.3.3")
LAST_BEFORE, LAST = "5.3.4", "5.5.1"
OFFSETS = {
    "older": '{\n\t"offsetTable":{\n\t\t"Orders@billing":{0:29,1:102\n\t\t}\n\t}\n}',
    "5.4": '{\n\t"offsetTable":{\n\t\t"Orders@billing":{\n\t\t\t0:29,\n\t\t\t1:102\n\t\t}\n\t}\n}',
    "strict": '{"offsetTable": {"Orders@billing": {"0": 29, "1": 102}}}',
    "none": '{\n\t"offsetTable":{}\n}',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy = shutil.copytree(NEW, tmp_path / "store")
    offsets(copy, "none")
    return copy


def options(root: Path, number: int, version: str) -> Path:
    (root / "rocksdbstore").mkdir(exist_ok=True)
    path = root / "rocksdbstore" / f"OPTIONS-{number:06}"
    path.write_text(f"# This is a RocksDB option file.\n\n[Version]\n  rocksdb_version={version}\n")
    return path


def queue_end(root: Path) -> None:
    data = bytearray((root / "checkpoint").read_bytes())
    struct.pack_into(">q", data, 40, 230)
    (root / "checkpoint").write_bytes(data)


def offsets(root: Path, form: str) -> None:
    (root / "config" / "consumerOffset.json").write_text(OFFSETS[form])


def version(root: Path) -> tuple[object, tuple[str, ...], str]:
    setting = open_store(root).settings["brokerVersion"]
    assert setting.origin is Origin.INFERRED
    return setting.value, setting.candidates, setting.note


@pytest.mark.parametrize(
    ("rocksdb", "said"),
    [
        ("8.4.0", ("5.4.0", ("5.4.0",), "")),
        ("8.4.4", ("5.5.1", ("5.5.0", "5.5.1"), "5.5.0 or 5.5.1, from ")),
    ],
)
def test_the_newest_options_file_tells_who_was_started_last(
    root: Path, rocksdb: str, said: tuple[str, tuple[str, ...], str]
) -> None:
    offsets(root, "5.4")
    options(root, 7, "8.4.0")
    options(root, 100_000_009, rocksdb)
    value, candidates, note = version(root)
    assert (value, candidates) == said[:2]
    assert note == f"{said[2]}rocksdb_version={rocksdb} in rocksdbstore/OPTIONS-100000009"
    assert open_store(root).settings.touched_by_5_4 is True


def test_a_broker_that_is_not_known_is_no_known_one(root: Path) -> None:
    offsets(root, "5.4")
    options(root, 9, "9.1.0")
    value, candidates, note = version(root)
    assert (value, candidates) == (NEWEST.name, (NEWEST.name,))
    assert note.startswith(f"newer than {NEWEST.name}, perhaps, from rocksdb_version=9.1.0 in ")


@pytest.mark.parametrize(
    ("make", "oldest", "reason"),
    [
        (lambda root: (root / "rocksdbstore").mkdir(), "5.4.0", "rocksdbstore"),
        (queue_end, "5.5.0", "logicsPhysicalOffset in the checkpoint"),
        (lambda root: offsets(root, "5.4"), "5.4.0", "the form of config/consumerOffset.json"),
    ],
)
def test_less_tells_less(root: Path, make: Callable[[Path], None], oldest: str, reason: str) -> None:
    offsets(root, "5.4")
    make(root)
    value, candidates, note = version(root)
    assert (value, candidates[0], candidates[-1]) == (NEWEST.name, oldest, NEWEST.name)
    assert note == f"{oldest} to {NEWEST.name}, from {reason}"
    assert open_store(root).settings.touched_by_5_4 is True


def test_an_older_broker_that_wrote_last_is_told_from_the_newer_one_before_it(root: Path) -> None:
    options(root, 7, "8.4.4")
    queue_end(root)
    offsets(root, "older")
    settings = open_store(root).settings
    assert settings["brokerVersion"].candidates == ("4.9.8", "5.3.3", "5.3.4")
    assert settings["brokerVersion"].note == (
        "5.3.4 or older, from the form of config/consumerOffset.json; 5.4.0 or newer was here before"
    )
    assert settings.touched_by_5_4 is True
    assert pickle.loads(pickle.dumps(settings)).touched_by_5_4 is True


@pytest.mark.parametrize("form", ["strict", "none"])
def test_without_the_brokers_offsets_an_older_one_may_have_come_last(root: Path, form: str) -> None:
    options(root, 7, "8.4.0")
    offsets(root, form)
    value, candidates, note = version(root)
    assert (value, candidates) == ("5.4.0", ("4.9.8", "5.3.3", "5.3.4", "5.4.0"))
    assert note == (
        "5.4.0, or 5.3.4 or older after it, from rocksdb_version=8.4.0 in rocksdbstore/OPTIONS-000007"
    )
    options(root, 8, "8.4.4")
    assert version(root)[2].startswith(
        "5.5.0 or 5.5.1, or 5.3.4 or older after it, from rocksdb_version=8.4.4 "
    )


def test_a_downgraded_store_may_be_its_older_brokers() -> None:
    value, candidates, _ = version(fixture("downgrade-5.3.3"))
    assert value == "5.5.1"
    assert "5.3.3" in candidates


@pytest.mark.parametrize(
    ("name", "since"), [("kvStore", "5.3.2"), ("timerwheel.1024", "5.3.4"), ("brokerIdentity", "5.1.1")]
)
def test_a_place_tells_the_oldest_broker_that_makes_it(root: Path, name: str, since: str) -> None:
    (root / name).mkdir()
    if name == "kvStore":
        (root / name / "CURRENT").write_text("MANIFEST-000004\n")
        (root / name / "MANIFEST-000004").write_bytes(b"x")
    note = version(root)[2]
    assert note == (f"{since} to {LAST_BEFORE}, from {name}" if since != LAST_BEFORE else name)
    assert open_store(root).settings.touched_by_5_4 is False


def test_4_9_and_nothing_at_all(tmp_path: Path) -> None:
    value, candidates, note = version(OLD)
    assert (value, candidates) == ("4.9.8", ("4.9.8",))
    assert note == "4.9.x, from a checkpoint, and nothing that only 5.x makes"
    assert open_store(OLD).settings.touched_by_5_4 is False
    shutil.copytree(OLD / "commitlog", tmp_path / "commitlog")
    settings = open_store(tmp_path).settings
    assert settings["brokerVersion"].origin is Origin.DEFAULT
    assert settings["brokerVersion"].candidates == tuple(RELEASES)
    assert settings.touched_by_5_4 is None


@pytest.mark.parametrize(
    ("given", "value", "touched"),
    [("5.5.0", "5.5.0", True), ("4.9", "4.9.8", False), ("5.x", "5.3.3", False)],
)
def test_what_the_user_says_counts(tmp_path: Path, given: str, value: str, touched: bool) -> None:
    shutil.copytree(OLD / "commitlog", tmp_path / "commitlog")
    settings = open_store(tmp_path, broker_version=given).settings
    setting = settings["brokerVersion"]
    assert (setting.value, setting.origin) == (value, Origin.GIVEN)
    assert setting.note == ("" if given == value else f"as {given}")
    assert settings.touched_by_5_4 is touched


def test_what_only_looks_like_a_sign_is_none(root: Path) -> None:
    """A FIFO, a link in a circle, a huge file, and bytes: nothing hangs, nothing is read as a whole."""
    path = options(root, 9, "8.4.4")
    path.unlink()
    os.mkfifo(path)
    assert version(root)[2].startswith("5.4.0 to 5.5.1, or 5.3.4 or older after it, from rocksdbstore")
    path.unlink()
    path.symlink_to(path.name)
    assert version(root)[0] == LAST
    path.unlink()
    path.write_bytes(b"rocksdb_version=" + b"9" * 100)
    assert version(root)[2].startswith("5.4.0 to 5.5.1, or 5.3.4 or older after it, from rocksdbstore")
    path.write_bytes(os.urandom(1 << 16))
    with path.open("r+b") as stream:
        stream.truncate(1 << 40)
    (root / "config" / "consumerOffset.json").unlink()
    os.mkfifo(root / "config" / "consumerOffset.json")
    assert version(root)[0] == LAST


@pytest.mark.parametrize("filling", [b'"@', b'"a@', b'"a@b":{\n', b'"' + b"a" * 500 + b"@", b"\n"])
def test_hostile_offsets_take_no_time(root: Path, filling: bytes) -> None:
    (root / "config" / "consumerOffset.json").write_bytes(filling * ((1 << 21) // len(filling)))
    begin = time.monotonic()
    assert version(root)[0] == "5.3.3"
    assert time.monotonic() - begin < 5


def test_a_directory_of_options_that_may_not_be_listed_is_a_place(root: Path) -> None:
    (root / "rocksdbstore").symlink_to("rocksdbstore")
    assert version(root)[0] == "5.3.3"
    (root / "rocksdbstore").unlink()
    (root / "rocksdbstore").write_text("a file")
    assert version(root)[0] == LAST


def part_of(name: str, folder: Path, *left_out: str) -> Path:
    """Copy a store without some of its parts, as hasty backups are."""
    return shutil.copytree(fixture(name), folder / name, ignore=shutil.ignore_patterns(*left_out))


@pytest.mark.parametrize("name", ["plain-5.4.0", "plain-5.5.1", "collisions-5.4.0", "downgrade-5.3.3"])
def test_tag_items_tell_a_newer_broker_whose_other_files_were_not_copied(tmp_path: Path, name: str) -> None:
    root = part_of(name, tmp_path, "config", "rocksdbstore", "checkpoint")
    value, candidates, note = version(root)
    assert (value, candidates[-1]) == (LAST, LAST)
    assert "5.4.0 to 5.5.1, or 5.3.4 or older after it, from tag items in index/" in note
    assert open_store(root).settings.touched_by_5_4 is True


@pytest.mark.parametrize("name", ["plain-4.9.8", "plain-5.3.3"])
def test_without_config_what_is_missing_tells_nothing(tmp_path: Path, name: str) -> None:
    """The rules stay those of the oldest that fit, and whether tags have items is open."""
    root = part_of(name, tmp_path, "config", "rocksdbstore")
    value, candidates, note = version(root)
    assert (value, candidates[-1]) == (name.removeprefix("plain-"), LAST)
    assert note.endswith(", and config/ is missing, so that newer files may be, too")
    assert open_store(root).settings.touched_by_5_4 is None
    whole = open_store(fixture(name)).settings
    assert whole.touched_by_5_4 is False
    assert whole.candidates[-1].name in {name.removeprefix("plain-"), LAST_BEFORE}
