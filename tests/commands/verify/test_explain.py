"""Every code can be explained; a wrong one names the closest."""

from __future__ import annotations

import pytest

from rmqtool.commands.verify import explained
from rmqtool.errors import UsageError
from rmqtool.findings import CATALOG


@pytest.mark.parametrize("code", CATALOG)
def test_every_code_is_found_in_any_case(code: str) -> None:
    assert explained(code.lower()) == (CATALOG[code],)


def test_all_and_globs() -> None:
    assert explained("all") == tuple(CATALOG.values())
    assert {entry.code[:3] for entry in explained("ix-*")} == {"IX-"}


@pytest.mark.parametrize(("text", "hint"), [("CL-CRX", "CL-CRC"), ("CQMISPLACED", "CQ-MISPLACED")])
def test_wrong_code_names_the_closest(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean.*{hint}"):
        explained(text)


@pytest.mark.parametrize("text", ["", "nothing like it at all", "[", "\x1b[2J"])
def test_nothing_like_a_code(text: str) -> None:
    with pytest.raises(UsageError, match="no finding code"):
        explained(text)
