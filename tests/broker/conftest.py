"""Tests marked `broker` run where Maven and a JDK are; elsewhere they are skipped, or fail when required."""

from __future__ import annotations

import os

import pytest

from tests.broker import jvm


@pytest.fixture(autouse=True)
def _broker(request: pytest.FixtureRequest) -> None:
    """Skip a test marked `broker` with the reason why no broker can run here, or fail it where one must."""
    if request.node.get_closest_marker("broker") is None:
        return
    reason = jvm.available()
    if reason is None:
        return
    if os.environ.get(jvm.REQUIRED) == "1":
        pytest.fail(f"{jvm.REQUIRED} is set, but {reason}", pytrace=False)
    pytest.skip(reason)
