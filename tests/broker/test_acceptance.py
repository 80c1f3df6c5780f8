"""A real broker starts on what we rebuilt, serves every message and every key, and goes on from there."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rmqtool.dispatch.index_keys import TagItems
from rmqtool.releases import release_named
from tests.broker import jvm
from tests.broker.ahead import begun
from tests.broker.log_truth import LogTruth, read_truth
from tests.broker.stores import DERIVED, FixtureStore, fixture_store, fixture_stores
from tests.commands.rebuilding import contents, rebuild_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

APPENDED = 23
MOST_ANSWERS = 64  # of one query, as the judge asks
UNIT_BYTES = {"consumequeue": 20, "consumequeue_ext": 20, "batchconsumequeue": 46}
HEADER_BYTES, SLOT_BYTES, ITEM_BYTES = 40, 4, 20  # of an index file

Opening = tuple[str, jvm.Version]
"""A fixture, and the version of the broker that opens it."""

OPENINGS: list[Opening] = [(store.name, store.version) for store in fixture_stores()]
_HAND_OVERS: dict[tuple[jvm.Version, jvm.Version], str] = {
    ("4.9.8", "5.3.3"): "plain delay transaction lmq ext segments expiredhead indexfull crash",
    ("4.9.8", "5.5.1"): "plain lmq ext expiredhead crash",
    ("5.3.3", "5.5.1"): "plain lmq ext batchcq segments expiredhead indexfull crash",
    ("5.4.0", "5.5.1"): "tags tagroll crash",
    ("5.5.1", "5.3.3"): "plain lmq tags tagroll expiredhead crash",
    ("5.5.1", "4.9.8"): "plain tagroll",
}
HAND_OVERS: list[Opening] = [
    (f"{name}-{maker}", version) for (maker, version), names in _HAND_OVERS.items() for name in names.split()
]


@dataclass(frozen=True)
class Service:
    """What a broker did with a store.

    Attributes:
        ours: What it served of our files: as found, after an append, after a restart.
        own: The same of the files that the broker which made the store had left.
        truth: What lies in the log.
        before: Our derived files.
        after: What became of them.
    """

    ours: list[jvm.Row]
    own: list[jvm.Row]
    truth: LogTruth
    before: dict[str, bytes]
    after: dict[str, bytes]

    def rows(self, kind: str, phase: str) -> list[jvm.Row]:
        return [row for row in self.ours if row["type"] == kind and row["phase"] == phase]


def serve(openings: list[Opening], folder: Path) -> dict[Opening, Service]:
    """Install our files beside the log alone, and let a broker work on them and on the original ones.

    The openings have one broker version and one time zone.
    """
    stores = {opening: fixture_store(opening[0]) for opening in openings}
    found: list[jvm.Found] = []
    before = []
    for number, store in enumerate(stores.values()):
        own = folder / str(number)
        rule = TagItems.of(release_named(store.version))  # a store of several brokers shows several
        rebuild_store(store.root, store.conf, own / "rebuilt", tag_items=rule)
        found.append(jvm.Found(install(store, own / "rebuilt", own / "ours"), store.conf))
        found.append(jvm.Found(install(store, store.expected, own / "own"), store.conf))
        before.append(derived(own / "ours"))
    ((version, timezone),) = {_judge(opening) for opening in openings}
    answers = jvm.serve(version, found, append=APPENDED, restart=True, timezone=timezone)
    return {
        opening: Service(
            answers[2 * number],
            answers[2 * number + 1],
            read_truth(store.root, release_named(store.version)),
            before[number],
            derived(folder / str(number) / "ours"),
        )
        for number, (opening, store) in enumerate(stores.items())
    }


def _judge(opening: Opening) -> tuple[jvm.Version, str]:
    """Return what one JVM can be only one of."""
    return opening[1], fixture_store(opening[0]).timezone


def install(store: FixtureStore, source: Path, root: Path) -> Path:
    """Put derived files beside a copy of log, config and checkpoint; return the store root."""
    store.copy_log_to(root)
    for directory in DERIVED:
        if (source / directory).exists():
            shutil.copytree(source / directory, root / directory)
    return root


def derived(root: Path) -> dict[str, bytes]:
    """Return the derived files of a store by their relative names."""
    return {
        f"{directory}/{name}": data
        for directory in DERIVED
        for name, data in contents(root / directory).items()
    }


@pytest.fixture(scope="module")
def services(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Opening], Service]]:
    folder = tmp_path_factory.mktemp("acceptance")
    with begun(request, "opening", folder, group=_judge, run=serve) as service_of:
        yield service_of


@pytest.fixture
def service(opening: Opening, services: Callable[[Opening], Service]) -> Service:
    return services(opening)


EVERY = pytest.mark.parametrize("opening", [*OPENINGS, *HAND_OVERS], ids=" on ".join)


@EVERY
def test_every_message_is_served_from_its_place(service: Service) -> None:
    """Each queue offset of the log's records gives that record; nothing between the bounds is missing."""
    rows = service.rows("message", "as-found")
    found = {(row["topic"], row["queueId"], row["queueOffset"]): row.get("physicalOffset") for row in rows}
    statuses = {row["status"] for row in rows}
    assert statuses <= {"FOUND", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "NO_MATCHED_LOGIC_QUEUE"}
    assert service.truth.places.items() <= found.items()
    extras: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        if (row["topic"], row["queueId"]) in service.truth.extras:
            extras[row["topic"], row["queueId"]].append(row["physicalOffset"])
    assert extras == service.truth.extras


@EVERY
def test_every_key_is_found(service: Service, opening: Opening) -> None:
    """A key, and since 5.4 a tag, finds all messages that have it, or as many as one answer may hold."""
    queries = service.rows("query", "as-found")
    tag_items = release_named(fixture_store(opening[0]).version).tag_items
    for row in queries:
        topic, key, found = row["topic"], row["key"], row["physicalOffsets"]
        expected = list(service.truth.keys[topic, key])
        if tag_items and key.startswith("T#"):
            expected += service.truth.tags[topic, key.removeprefix("T#")]
        if opening[0].startswith("noindex"):
            assert found == []
        else:
            assert set(expected) <= set(found) or len(found) == MOST_ANSWERS
    assert bool(queries) == any([*service.truth.keys.values(), *service.truth.tags.values()])


@EVERY
def test_it_serves_what_it_serves_of_its_own_files(service: Service) -> None:
    """Row for row: as found, after an append, after a restart."""
    assert service.ours == service.own


@EVERY
def test_appended_messages_follow_and_survive_a_restart(service: Service) -> None:
    """Every message of before is still there, and all that were appended."""
    counts = [len(service.rows("message", phase)) for phase in ("as-found", "after-append", "after-restart")]
    assert counts[1] == counts[2] >= counts[0] + APPENDED
    assert service.rows("message", "after-append") == [
        row | {"phase": "after-append"} for row in service.rows("message", "after-restart")
    ]
    assert service.rows("query", "after-append") == [
        row | {"phase": "after-append"} for row in service.rows("query", "after-restart")
    ]


@EVERY
def test_nothing_changes_below_the_ends(service: Service, opening: Opening) -> None:
    """The broker appends to our files and creates new ones after them; what was there stays."""
    settings = fixture_store(opening[0]).recipe["settings"]
    indexes = sorted(name for name in service.before if name.startswith("index/"))
    for name, before in service.before.items():
        after = service.after[name]
        assert len(after) == len(before)
        if name in indexes[:-1]:
            assert after == before, name
        elif name not in indexes:
            unit = UNIT_BYTES[name.partition("/")[0]]
            end = -(-len(before.rstrip(b"\0")) // unit) * unit
            assert after[:end] == before[:end], name
    if indexes:
        before, after = service.before[indexes[-1]], service.after[indexes[-1]]
        count = int.from_bytes(before[HEADER_BYTES - 4 : HEADER_BYTES], "big")
        items = HEADER_BYTES + int(settings["maxHashSlotNum"]) * SLOT_BYTES
        end = items + count * ITEM_BYTES
        assert after[items:end] == before[items:end]
