"""Wear of real stores is no damage: killed while they wrote, cut, restarted, appended to, upgraded."""

from __future__ import annotations

import random
import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from rmqtool.formats import message
from tests.broker import jvm
from tests.broker.start_cases import records
from tests.broker.stores import fixture_store
from tests.damage.running import verified

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.check import VerifyReport

pytestmark = pytest.mark.broker

_KILLED_AFTER_MS = 2400
_KINDS = ("plain", "segments", "indexroll")
_EACH = 2
_APPENDED = 40
_STARTS: list[tuple[jvm.Version, jvm.Version, bool]] = [
    ("4.9.8", "4.9.8", True),
    ("5.3.3", "5.3.3", True),
    ("4.9.8", "5.3.3", False),
    ("5.4.0", "5.5.1", True),
    ("5.5.1", "5.5.1", True),
    ("5.3.3", "5.5.1", False),
]


@pytest.fixture(scope="module", params=jvm.VERSIONS)
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Stores of one version whose brokers, each with a seed of its own, died while they wrote."""
    return kill(request.param, tmp_path_factory.mktemp("killed"))


def kill(version: jvm.Version, folder: Path) -> list[Path]:
    """Make stores of brokers that died.

    A start looks at all of their files, however many small ones were written before the first was dispatched:
    with ten, dispatch that lags on a busy machine is an error of 5.4+, and rightly told.
    """
    roots = [folder / f"{kind}-{number}" for kind in _KINDS for number in range(_EACH)]
    stores = []
    for root in roots:
        conf = folder / f"{root.name}.conf"
        text = fixture_store(f"{root.name.partition('-')[0]}-{version}").conf.read_text()
        conf.write_text(f"{text}\ncommitLogRecoverMaxNum=1000\n")
        stores.append(jvm.Found(root, conf))
    jvm.kill(version, _KILLED_AFTER_MS + random.randrange(900), stores)
    for store in stores:
        shutil.copyfile(store.conf, store.root / "broker.conf")
    return roots


def errors(report: VerifyReport) -> list[str]:
    """Return the errors; not that 4.9.8 refuses to start on a file that was just being made: it does."""
    return [
        f"{one.code.code} {one.file} {one.position} {one.message}"
        for one in report.findings
        if one.severity == "error" and not one.message.endswith(" is empty")
    ]


def test_a_killed_store_has_no_errors(killed: list[Path]) -> None:
    """What the next start dispatches or cuts, and what nobody can notice, is at most a warning."""
    reports = {root.name: verified(root) for root in killed}
    assert {name: found for name, report in reports.items() if (found := errors(report))} == {}
    assert all("ST-ABORT" in report.findings.counts for report in reports.values())
    assert any(report.examined.records > 0 for report in reports.values())  # a slow one may not have begun


def test_a_torn_last_record_of_a_killed_store_is_no_error(killed: list[Path], tmp_path: Path) -> None:
    """Pages of the last record that did not reach the disk: the next start cuts it off.

    A kill alone leaves no such record: where unit and index item prove its message, that is lost.
    """
    begun = [root for root in killed[::2] if records(root, root / "broker.conf")]
    for number, root in enumerate(begun):
        copy = tmp_path / str(number)
        shutil.copytree(root, copy)
        tear(copy, random.Random(number))
        others = [one for one in errors(verified(copy)) if not one.startswith("CL-LOST ")]
        assert others == [], root.name


def tear(root: Path, chance: random.Random) -> None:
    """Zero the log from somewhere inside its last record on; at least its properties and topic go.

    With the properties alone gone, a broker takes the record for whole, and keeps it: that is damage. So is a
    part of the store time where the record is the first of its file: a start before 5.5.0 takes that file for
    older than the checkpoint, begins there, and dispatches none of the records before it.
    """
    last = records(root, root / "broker.conf")[-1]
    files = sorted((root / "commitlog").iterdir())
    path = next(file for file in reversed(files) if int(file.name) <= last.physical_offset)
    at, time_at = last.physical_offset - int(path.name), message.HEAD_OFFSETS[0]["storeTimestamp"]
    kept = [*range(1, last.body_start + last.body_length)]
    if at == 0:
        del kept[time_at : time_at + 7]
    at += chance.choice(kept)
    data = path.read_bytes()
    path.write_bytes(data[:at] + bytes(len(data) - at))


def lose_magic(root: Path, conf: Path) -> None:
    """Zero the magic of the ninth record from the log's end."""
    victim = records(root, conf)[-9]
    path = root / "commitlog" / f"{victim.physical_offset // 8192 * 8192:020d}"
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, victim.physical_offset % 8192 + 4, 0)
    path.write_bytes(data)


@pytest.mark.parametrize(("writer", "reader", "torn"), _STARTS)
def test_a_store_that_goes_on_has_no_errors(
    writer: jvm.Version, reader: jvm.Version, torn: bool, tmp_path: Path
) -> None:
    """Killed, recovered by the same or a newer broker, appended to, stopped, started again, stopped."""
    store = fixture_store(f"crash-{writer}")
    root = store.copy_to(tmp_path / "store")
    shutil.copyfile(store.conf, root / "broker.conf")
    if torn:
        tear(root, random.Random(1))
    before = len(records(root, store.conf))
    jvm.serve(reader, [jvm.Found(root, store.conf)], append=_APPENDED, restart=True)
    report = verified(root)
    assert errors(report) == []
    assert report.examined.records >= before - torn + _APPENDED
    assert not (root / "abort").exists()


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_items_of_records_behind_a_cut_are_no_errors(version: jvm.Version, tmp_path: Path) -> None:
    """A clean start cuts the log and leaves the index as it is: nobody reads what its last items point at."""
    store = fixture_store(f"indexroll-{version}")
    root = store.copy_to(tmp_path / "store")
    shutil.copyfile(store.conf, root / "broker.conf")
    lose_magic(root, store.conf)
    jvm.serve(version, [jvm.Found(root, store.conf)], append=2, restart=True)
    report = verified(root)
    (tail,) = (one for one in report.findings if one.code.code == "CL-TAIL-DIRTY")
    assert tail.physical_offset is not None
    dangling = [one for one in report.findings if one.code.code == "IX-DANGLING"]
    after = [one for one in dangling if (one.physical_offset or 0) >= tail.physical_offset]
    assert len(after) > 3
    assert {one.severity for one in after} == {"warning"}


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_a_log_that_was_cut_and_written_over_has_no_errors(version: jvm.Version, tmp_path: Path) -> None:
    """Recovery cuts at a damaged record and clears nothing; new records lie over a part of the old ones."""
    store = fixture_store(f"crash-{version}")
    root = store.copy_to(tmp_path / "store")
    shutil.copyfile(store.conf, root / "broker.conf")
    lose_magic(root, store.conf)
    assert verified(root).exit_status() != 0
    jvm.serve(version, [jvm.Found(root, store.conf)], append=4, restart=True)
    assert errors(verified(root)) == []
