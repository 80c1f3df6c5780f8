"""``maxCheckMessageReuseBufferSize`` (5.5.1+) decides how a record fails whose part is longer than itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker import jvm, running_master
from tests.broker.compare import compare_derived
from tests.broker.damage_cases import CASES
from tests.broker.log_damage import LogCopy
from tests.broker.starts import Case, judged
from tests.broker.stores import fixture_store
from tests.commands.rebuilding import rebuild_store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

_VERSION: jvm.Version = "5.5.1"
_NAMES = ("TOTALSIZE no size", "topic length", "properties length no length", "wider host")
_DAMAGES = tuple(case for case in CASES if case.name in _NAMES)
_SIZES = (0, 300)
"""Bytes: none is kept; an array for the shorter records only."""


def damaged(folder: Path, size: int | None) -> list[jvm.Found]:
    """Damage logs of a store, one for each way, and give a broker's setting beside."""
    stores = []
    for number, case in enumerate(_DAMAGES):
        store = fixture_store(f"{case.fixture}-{_VERSION}")
        root = store.copy_log_to(folder / f"{number}-{size}")
        case.damage(LogCopy(root))
        conf = folder / f"{number}-{size}.conf"
        given = "" if size is None else f"maxCheckMessageReuseBufferSize={size}\n"
        conf.write_text(store.conf.read_text("utf-8") + given, "utf-8")
        stores.append(jvm.Found(root, conf))
    return stores


def rebuilt(stores: list[jvm.Found]) -> list[Path]:
    """Rebuild stores; return where the files lie."""
    outs = []
    for store in stores:
        running_master.extend_log(store.root, _VERSION)
        outs.append(store.root.with_name(f"{store.root.name}-out"))
        rebuild_store(store.root, store.conf, outs[-1])
    return outs


def test_a_rebuild_follows_the_setting(tmp_path: Path) -> None:
    plain = rebuilt(damaged(tmp_path, None))
    differs = 0
    for size in _SIZES:
        stores = damaged(tmp_path, size)
        outs = rebuilt(stores)
        assert running_master.rebuild(_VERSION, stores) == [True] * len(stores)
        found = [compare_derived(store.root, out) for store, out in zip(stores, outs, strict=True)]
        assert found == [[]] * len(stores)
        differs += sum(bool(compare_derived(out, other)) for out, other in zip(outs, plain, strict=True))
    assert differs


def test_a_start_with_the_setting_is_foreseen(tmp_path: Path) -> None:
    cases = []
    for size in _SIZES:
        for store in damaged(tmp_path, size):
            (store.root / "abort").touch()
            cases.append(Case(store.root.name, store.root, store.conf))
    assert [found for _, _, found in judged(_VERSION, cases)] == [[]] * len(cases)
