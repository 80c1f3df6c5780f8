"""The list of settings that is shipped is what the released brokers have."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.broker.brokers import BROKERS

SCRIPT = Path(__file__).resolve().parents[2] / "fixtures" / "make" / "settings.py"


@pytest.mark.broker
def test_the_shipped_list_is_the_brokers() -> None:
    spec = importlib.util.spec_from_file_location("settings_of_brokers", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    shipped = {line.split("\t")[0]: line for line in script.LIST.read_text("ascii").splitlines()}
    assert script.store_settings(tuple(BROKERS)).splitlines() == list(shipped.values())
