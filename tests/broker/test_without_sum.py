"""Records without checksum: real brokers lose them at a start, and none with ``checkCRCOnRecover=false``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.measured import Copy, measured
from tests.broker.stores import fixture_store
from tests.damage.edits import edited
from tests.damage.places import Places

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker import jvm

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_a_setting_loses_nothing(version: jvm.Version, tmp_path: Path) -> None:
    store = fixture_store(f"batch-{version}")
    records = len(Places(store.root).records)
    edits = [{"record": number, "field": "bodyCrc", "zero": 0} for number in range(40, records)]
    conf = tmp_path / "broker.conf"
    conf.write_text(store.conf.read_text() + "\ncheckCRCOnRecover=false\n")
    checked, unchecked = (
        Copy(edited(store.root, tmp_path / str(number), edits), one, store.name)
        for number, one in enumerate((store.conf, conf))
    )
    cut, whole = (one.outcome for one in measured([checked, unchecked], version))
    assert cut.lost > 0
    assert (whole.lost, whole.wrong, whole.unserved, whole.reused) == (0, 0, 0, 0)
    assert whole.served == records
