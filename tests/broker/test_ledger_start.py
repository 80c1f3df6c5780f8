"""A start on a DLedger log goes as predicted, once its member leads and commits what it has."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.formats.entry import ENTRIES
from rmqtool.outcomes import Action
from tests.broker import jvm
from tests.broker.starts import Case, judged
from tests.broker.stores import FixtureStore, ledger_stores, whole_entry_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker


def _data(root: Path, newer: int) -> Path:
    return sorted((root / "dledger-n0" / "data").iterdir())[-1 - newer]


def _header(newer: int, number: int, **fields: int) -> Callable[[Path], None]:
    """Return an edit of the header of an entry, by its place among those of its file."""

    def edit(root: Path) -> None:
        file = _data(root, newer)
        data = bytearray(file.read_bytes())
        at = 0
        starts = []
        while at + ENTRIES.size <= len(data):
            header = ENTRIES.padded(bytes(data[at : at + ENTRIES.size]))
            if header.magic != 1:
                break
            starts.append(at)
            at += header.size
        at = starts[number]
        header = ENTRIES.padded(bytes(data[at : at + ENTRIES.size]))
        data[at : at + ENTRIES.size] = ENTRIES.encode(header._replace(**fields))
        file.write_bytes(data)

    return edit


def _bytes(newer: int, at: int, raw: bytes) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        file = _data(root, newer)
        data = bytearray(file.read_bytes())
        data[at : at + len(raw)] = raw
        file.write_bytes(data)

    return edit


def _without(*names: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        for name in names:
            path = root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return edit


def _unit(at: int, raw: bytes) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        with next((root / "dledger-n0" / "index").iterdir()).open("r+b") as file:
            file.seek(at)
            file.write(raw)

    return edit


def _checkpoint(text: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        (root / "dledger-n0" / "checkpoint").write_text(text)

    return edit


def _short(root: Path) -> None:
    with next((root / "dledger-n0" / "index").iterdir()).open("r+b") as file:
        file.truncate(4096)


def _short_data(root: Path) -> None:
    with _data(root, 0).open("r+b") as file:
        file.truncate(8000)


def _nothing(root: Path) -> None:
    del root


EDITS: dict[str, Callable[[Path], None]] = {
    "as it is": _nothing,
    "no queues, no index": _without("consumequeue", "index"),
    "no index of entries": _without("dledger-n0/index"),
    "no checkpoint of the member": _without("dledger-n0/checkpoint"),
    "no checkpoint of the store": _without("checkpoint"),
    "no term": _without("dledger-n0/currterm"),
    "a member that has committed little": _checkpoint("committedIndex=3\nendIndex=3\n"),
    "a member that has committed too much": _checkpoint("committedIndex=9999\nendIndex=9999\n"),
    "a member that has committed nothing": _checkpoint("committedIndex=\nendIndex=3\n"),
    "a unit of the third newest file": _unit(32 * 70, b"\xff" * 32),
    "a unit of an older file": _unit(32 * 5, b"\xff" * 32),
    "all units": _unit(0, bytes(4096)),
    "place in the newest": _header(0, 3, pos=9999),
    "index in the newest": _header(0, 3, index=9999),
    "term in the newest": _header(0, 3, term=-1),
    "size in the newest": _header(0, 3, size=99),
    "huge size in the newest": _header(0, 3, size=1 << 30, body_length=(1 << 30) - 48),
    "no size in the newest": _header(0, 3, size=0),
    "magic in the newest": _header(0, 3, magic=2),
    "end mark in the newest": _header(0, 3, magic=-1),
    "first entry of the newest": _header(0, 0, index=7),
    "place in the second": _header(1, 3, pos=9999),
    "index in the second": _header(1, 0, index=9999),
    "end mark in the second": _header(1, 4, magic=-1),
    "index in an older file": _header(3, 4, index=9999),
    "first entry of the oldest": _header(4, 0, index=50),
    "channel and sums in the newest": _header(0, 3, channel=7, chain_crc=7, body_crc=7),
    "zeros in a message of the newest": _bytes(0, 3000, bytes(200)),
    "zeros in the newest": _bytes(0, 1000, bytes(1000)),
    "noise in a message of the second": _bytes(1, 3000, b"\xaa" * 40),
    "noise in an older file": _bytes(4, 3000, b"\xaa" * 400),
    "a higher term from the newest on": _header(0, 3, term=8),
}
_INDEX_ALONE = "a short file of the index"  # the log is whole, so no other action is compared
REFUSED: dict[str, Callable[[Path], None]] = {
    "place in the third newest": _header(2, 3, pos=9999),
    "index in the third newest": _header(2, 5, index=1),
    "no length in the third newest": _header(2, 4, size=0),
    _INDEX_ALONE: _short,
    "a short file of entries": _short_data,
}
_REFUSED_FILES = {
    "dledger-n0/data/00000000000000016384",
    "dledger-n0/data/00000000000000032768",
    "dledger-n0/index/00000000000000000000",
}
_STORES_A_JVM = 12


def _stores(version: str) -> Iterator[FixtureStore]:
    return (store for store in ledger_stores() if store.version == version)


def _case(store: FixtureStore, name: str, root: Path, *, unclean: bool) -> Case:
    copy = whole_entry_index(store.copy_to(root))
    (EDITS | REFUSED)[name](copy)
    (copy / "abort").unlink(missing_ok=True)
    if unclean:
        (copy / "abort").touch()
    return Case(f"{store.name}: {name}{', abort' * unclean}", copy, store.conf)


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_starts_go_as_predicted(version: jvm.Version, tmp_path: Path) -> None:
    """The log's end, queues, index and deleted files, after clean stops and kills, once a message came."""
    cases = []
    for store in _stores(version):
        has_five = store.name.startswith("dledger-")
        for number, name in enumerate(EDITS):
            if not has_five and (number % 4 or "older" in name or "oldest" in name):
                continue
            for unclean in (False, True) if has_five else (number % 8 == 0,):
                root = tmp_path / f"{store.name}-{number}-{unclean}"
                cases.append(_case(store, name, root, unclean=unclean))
    differ = [
        f"{case.name}: {text}"
        for first in range(0, len(cases), _STORES_A_JVM)
        for case, _, texts in judged(version, cases[first : first + _STORES_A_JVM])
        for text in texts
    ]
    assert "\n".join(differ) == ""


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_start_that_ends_the_process_is_refused(version: jvm.Version, name: str, tmp_path: Path) -> None:
    """The prediction names the file, and what salvage keeps is better than any start."""
    store = next(store for store in _stores(version) if store.name.startswith("dledger-"))
    case = _case(store, name, tmp_path / "store", unclean=False)
    with rmqtool.open(case.root, broker_conf=case.conf) as opened:
        report = opened.verify()
        prediction = opened.predict_recovery(version)
    assert not prediction.loads
    assert {refusal.file for refusal in prediction.refusals} <= _REFUSED_FILES
    recommended = [one.action for one in report.outcomes if one.recommended]
    assert recommended == ([] if name == _INDEX_ALONE else [Action.SALVAGE])
    with pytest.raises(jvm.BrokerFailure, match="ended with 255"):
        jvm.recover(version, [jvm.Found(case.root, case.conf)])
