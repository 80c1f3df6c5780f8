"""Which rule for tag items a store follows: read off its index, to the message."""

from __future__ import annotations

import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, NO_TAG_ITEMS, TagItems, tag_rule
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.releases import RELEASES
from rmqtool.store import Origin, Store, open_store
from tests.broker_model.reput import BrokerModel, Sizes
from tests.builders import POLICY_5, LogBuilder, properties
from tests.store.fixture_stores import STORE_ROOTS, fixture
from tests.strategies import examples

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 4096
SIZES = Sizes(slots=50, items=20)


def rule_of_recipe(root: Path) -> TagItems:
    """Return what the brokers that wrote a store, one after the other, make of its log."""
    recipe = tomllib.loads((root / "recipe.toml").read_text())
    turns: list[int] = []
    for broker in recipe.get("brokers", [{"from": 0, "version": recipe["version"]}]):
        if RELEASES[broker["version"]].tag_items == (len(turns) % 2 == 0):
            turns.append(broker["from"])
    return TagItems((*ALL_TAG_ITEMS.turns, *turns[1:]) if turns[:1] == [0] else tuple(turns))


@pytest.mark.every_store
@pytest.mark.few(12)
@pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)
def test_real_brokers_are_known_by_their_index(root: Path) -> None:
    """All or none, or the very offset at which one broker took over from another."""
    store = open_store(root, broker_conf=root / "broker.conf")
    rule = tag_rule(store)
    if not store.index_files:
        assert rule.value == TagItems.of(store.settings.release)
        return
    assert rule.value == rule_of_recipe(root)
    if "indexempty" not in root.name:
        assert rule.origin is Origin.INFERRED
        assert ("present index" in rule.reason) == (store.settings.touched_by_5_4 is not False)


def written(folder: Path, log: LogBuilder, policy: DispatchPolicy) -> Store:
    """Write a log and the index that a model of brokers makes of it."""
    model = BrokerModel(policy, SIZES)
    model.reput(log.files(), log.file_size)
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("commitlog", "index"):
        (folder / name).mkdir(parents=True)
    for start, data in log.files().items():
        (folder / "commitlog" / f"{start:020d}").write_bytes(data)
    for number, data in enumerate(model.index_files()):
        (folder / "index" / f"2026010100000{number:04d}").write_bytes(data)
    given_sizes = [f"maxHashSlotNum={SIZES.slots}", f"maxIndexNum={SIZES.items}"]
    return open_store(folder, properties=given_sizes)


KINDS = ["TAGS", "TAGS", "TAGS", "TAGS KEYS", "KEYS", ""]


@examples(60)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=60), st.sets(st.integers(0, 60), max_size=3))
def test_it_makes_the_index_again(tmp_path: Path, kinds: list[str], turning: set[int]) -> None:
    """Turns are found to the message; those that no message shows do not matter."""
    log, places = LogBuilder(FILE_SIZE), []
    for number, kind in enumerate(kinds):
        values = {name: "T#t k" if name == "KEYS" else "t" for name in kind.split()}
        places.append(log.add(properties=properties({"UNIQ_KEY": f"u{number}"} | values), queueOffset=number))
    places.append(log.place)
    turns = tuple(sorted({places[min(turn, len(kinds))] for turn in turning}))
    store = written(tmp_path / "store", log, DispatchPolicy(POLICY_5.release, tag_items=TagItems(turns)))
    rule = tag_rule(store)
    remade = BrokerModel(DispatchPolicy(POLICY_5.release, tag_items=rule.value), SIZES)
    remade.reput(log.files(), FILE_SIZE)
    present = [file.read_at(0, file.size_bytes) for file in store.index_files]
    assert remade.index_files() == present


@pytest.mark.full
def test_one_message_of_thousands_is_found_at_either_end(tmp_path: Path) -> None:
    """Where an upgrade has only just been, or a broker was replaced at once."""
    log, places = LogBuilder(1 << 20), []
    for number in range(3000):
        pairs = {"UNIQ_KEY": f"u{number}", "TAGS": "t"}
        places.append(log.add(properties=properties(pairs), body=b"", queueOffset=number))
    for turns in ((places[1],), (places[-1],), (places[1777],), (places[900], places[2100])):
        policy = DispatchPolicy(POLICY_5.release, tag_items=TagItems(turns))
        assert tag_rule(written(tmp_path / "store", log, policy)).value == TagItems(turns)


def test_without_an_index_the_broker_tells(tmp_path: Path) -> None:
    shutil.copytree(fixture("plain-5.4.0") / "commitlog", tmp_path / "commitlog")
    for version, value in (("5.3.4", NO_TAG_ITEMS), ("5.4.0", ALL_TAG_ITEMS)):
        rule = tag_rule(open_store(tmp_path, broker_version=version))
        assert (rule.value, rule.origin) == (value, Origin.GIVEN)
        assert version in rule.reason
    rule = tag_rule(open_store(tmp_path))
    assert (rule.value, rule.origin) == (NO_TAG_ITEMS, Origin.DEFAULT)


def test_an_index_of_rubbish_tells_nothing(tmp_path: Path) -> None:
    """Items that are not those of their records are no evidence."""
    shutil.copytree(fixture("plain-5.4.0"), tmp_path / "store")
    for path in (tmp_path / "store" / "index").iterdir():
        data = path.read_bytes()
        path.write_bytes(data[:140] + bytes(byte ^ 0x55 for byte in data[140:]))
    store = open_store(
        tmp_path / "store", broker_conf=tmp_path / "store" / "broker.conf", broker_version="5.4.0"
    )
    assert tag_rule(store).origin is Origin.GIVEN
