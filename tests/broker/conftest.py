"""Tests marked `broker` run where Maven and a JDK are; elsewhere they are skipped."""

from __future__ import annotations

import pytest

from tests.broker import jvm


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `broker` with the reason why no broker can run here.

    A hook, as a fixture would come after those of the module, which start brokers.
    """
    if item.get_closest_marker("broker") is not None and (reason := jvm.available()) is not None:
        pytest.skip(reason)
