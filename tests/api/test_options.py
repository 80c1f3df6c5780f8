"""Options of methods, and those that the requests of commands declare."""

from __future__ import annotations

from typing import Any

import pytest

from rmqtool.api import options as typed
from rmqtool.commands.dump import DumpRequest
from rmqtool.errors import UsageError
from rmqtool.options import declared_options, request_of

PARTS = {typed.QueueOptions, typed.MessagesOptions}
BESIDE = {typed.ExportOptions: {"format", "columns"}}


@pytest.mark.parametrize("keywords", typed.REQUESTS)
def test_keywords_are_the_declared_options(keywords: type[Any]) -> None:
    named = keywords.__annotations__.keys() - BESIDE.get(keywords, set())
    declared = {one.name for one in declared_options(typed.REQUESTS[keywords])}
    assert named <= declared if keywords in PARTS else named == declared
    assert all(f"    {name}: " in str(keywords.__doc__) for name in named)


def test_an_unknown_option_and_a_wrong_word_are_refused() -> None:
    with pytest.raises(TypeError, match="colour: no such option"):
        request_of(DumpRequest, {"colour": "red"})
    with pytest.raises(UsageError, match="row_types='row': give one of message"):
        request_of(DumpRequest, {"row_types": "row"})


def test_none_is_the_default() -> None:
    assert request_of(DumpRequest, {"topic": None, "on_corrupt": None, "hex": None}) == DumpRequest()
