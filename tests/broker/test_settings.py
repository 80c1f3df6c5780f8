"""The list of settings that is shipped is what the released brokers have."""

from __future__ import annotations

import pytest

from tests.broker.brokers import BROKERS
from tests.broker.scripts import script


@pytest.mark.broker
def test_the_shipped_list_is_the_brokers() -> None:
    settings = script("settings")
    shipped = settings.LIST.read_text("ascii").splitlines()
    assert settings.store_settings(tuple(BROKERS)).splitlines() == shipped
