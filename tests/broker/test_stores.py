"""The fixture stores are complete and unaltered, and the manual names them; no broker needed."""

from __future__ import annotations

import hashlib
import re

import pytest

from tests.broker.brokers import BROKERS
from tests.broker.stores import STORES, FixtureStore, fixture_stores

EVERY = pytest.mark.parametrize("store", fixture_stores(), ids=lambda store: store.name)


@EVERY
def test_store_is_what_the_broker_left(store: FixtureStore) -> None:
    """Every file of a store, and no other, has the digest recorded when it was made."""
    lines = (store.root / "SHA256SUMS").read_text("utf-8").splitlines()
    recorded = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    found = {
        path.relative_to(store.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in store.root.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }
    assert found == recorded


@pytest.mark.few(6)
@EVERY
def test_recipe_and_settings_agree(store: FixtureStore) -> None:
    """The recipe names the directory and repeats broker.conf; its own reference needs no other."""
    assert store.name == f"{store.recipe['name']}-{store.version}"
    conf = dict(line.split("=", 1) for line in store.conf.read_text("utf-8").splitlines())
    assert conf == store.recipe["settings"]
    assert (store.root / "reference").exists() == (store.recipe["reference"] == "reference")
    assert store.recipe["reference"] == "reference" or store.recipe["differences"] == []


def test_readme_lists_every_store() -> None:
    """The table in fixtures/README.md has each store, with the reference it has for each version."""
    readme = (STORES.parent / "README.md").read_text("utf-8")
    table = readme[readme.index("| Store |") :].partition("\n\n")[0].splitlines()
    (_, _, *versions), _, *rows = ([cell.strip() for cell in row.split("|")[1:-1]] for row in table)
    listed = {
        (f"{what}-{version}", reference)
        for names, _, *references in rows
        for what in re.findall(r"`(\w+)`", names)
        for version, reference in zip(versions, references, strict=True)
        if reference
    }
    assert listed == {(store.name, store.recipe["reference"]) for store in fixture_stores()}


def test_releases_have_fixtures() -> None:
    """The releases of the gate are those that made the stores."""
    assert {store.version for store in fixture_stores()} == {
        version for version, broker in BROKERS.items() if broker.gate
    }


@pytest.mark.few(6)
@EVERY
def test_brokers_of_a_store_are_in_order(store: FixtureStore) -> None:
    """Where several brokers wrote a store, each goes on after the one before; the last gives its version."""
    brokers = store.recipe.get("brokers", [{"version": store.version, "from": 0}])
    starts = [broker["from"] for broker in brokers]
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert brokers[-1]["version"] == store.version
    assert {broker["version"] for broker in brokers} <= BROKERS.keys()
