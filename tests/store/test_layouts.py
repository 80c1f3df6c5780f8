"""Each layout and each deed: what is done, and the one sentence where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import EnvironmentFailureError
from rmqtool.store import layouts, open_store, places
from rmqtool.store.layouts import Deed, Layout

if TYPE_CHECKING:
    from pathlib import Path

READS = {Deed.READ_LOG, Deed.COMPARE, Deed.REBUILD, Deed.SALVAGE}
QUEUES = {Deed.READ_QUEUES, Deed.READ_LIGHT_QUEUES}


@pytest.mark.parametrize(
    ("layout", "can"),
    [
        (layouts.DLEDGER_LOG, set(Deed)),
        (layouts.UNREAD_DLEDGER_LOG, QUEUES),
        (layouts.LOG_ON_OTHER_PATHS, QUEUES),
        (layouts.QUEUES_IN_ROCKSDB, READS),
        (layouts.LIGHT_QUEUES_IN_ROCKSDB, READS | {Deed.READ_QUEUES}),
        (layouts.QUEUES_TWICE, READS | QUEUES | {Deed.CONVERT}),
        (layouts.BESIDE, {*Deed}),
    ],
)
def test_what_each_layout_lets_a_command_do(layout: Layout, can: set[Deed]) -> None:
    assert layout.can == can


def test_a_log_that_becomes_readable_is_not_rebuilt_salvaged_or_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "dledger-n0" / "data").mkdir(parents=True)
    barred = open_store(tmp_path)
    assert [one.label for one in barred.bars(Deed.READ_LOG)] == ["dledger-n0"]
    with pytest.raises(EnvironmentFailureError, match="is not read, and there is no other to dump"):
        barred.require_log("dump")
    readable = layouts.UNREAD_DLEDGER_LOG.can | {Deed.READ_LOG}
    monkeypatch.setattr(places, "UNREAD_DLEDGER_LOG", Layout(readable))
    store = open_store(tmp_path)
    assert store.can(Deed.READ_LOG)
    for deed in (Deed.COMPARE, Deed.PREDICT, Deed.REBUILD, Deed.INSTALL, Deed.SALVAGE):
        assert not store.can(deed)
        with pytest.raises(EnvironmentFailureError) as refusal:
            store.require(deed)
        assert str(refusal.value).startswith(f"{tmp_path}: dledger-n0: ")
        assert str(refusal.value).endswith(deed.value)
