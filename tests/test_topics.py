"""Names of topics that say something."""

from __future__ import annotations

import pytest

from rmqtool.topics import lite_topic_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("%LMQ%$Orders$customer-7", ("Orders", "customer-7")),
        ("%LMQ%$Orders$a$b", ("Orders", "a$b")),
        ("%LMQ%device-1", None),
        ("%LMQ%$Orders", None),
        ("%LMQ%$$x", None),
        ("$Orders$x", None),
    ],
)
def test_a_lite_topic_is_told_from_other_light_queues(name: str, expected: tuple[str, str] | None) -> None:
    """The broker's name: ``%LMQ%$PARENT$LITE``."""
    assert lite_topic_of(name) == expected
