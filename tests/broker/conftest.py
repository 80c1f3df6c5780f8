"""Tests marked `broker` run where Maven and a JDK are; elsewhere they are skipped, or fail when required."""

from __future__ import annotations

import os

import pytest

from tests.broker import jvm


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `broker` with the reason why no broker can run here, or fail it where one must.

    A hook, as a fixture would come behind those of the module, which start brokers.
    """
    if item.get_closest_marker("broker") is None:
        return
    reason = jvm.available()
    if reason is None:
        return
    if os.environ.get(jvm.REQUIRED) == "1":
        pytest.fail(f"{jvm.REQUIRED} is set, but {reason}", pytrace=False)
    pytest.skip(reason)
