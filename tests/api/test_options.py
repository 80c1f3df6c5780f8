"""Options of methods, and those that the requests of commands declare."""

from __future__ import annotations

from typing import Any

import pytest

from rmqtool.api import options as typed
from rmqtool.check.model import VerifyRequest
from rmqtool.commands.dump.request import DumpRequest
from rmqtool.commands.export.model import ExportRequest
from rmqtool.commands.query import QueryRequest
from rmqtool.commands.rebuild.request import RebuildRequest
from rmqtool.commands.repair.model import RepairRequest
from rmqtool.commands.salvage.request import SalvageRequest
from rmqtool.commands.topics import TopicsRequest
from rmqtool.errors import UsageError
from rmqtool.options import declared_options, request_of


@pytest.mark.parametrize(
    ("keywords", "request_class", "more"),
    [
        (typed.DumpOptions, DumpRequest, set()),
        (typed.QueryOptions, QueryRequest, set()),
        (typed.TopicsOptions, TopicsRequest, set()),
        (typed.VerifyOptions, VerifyRequest, set()),
        (typed.RebuildOptions, RebuildRequest, set()),
        (typed.SalvageOptions, SalvageRequest, set()),
        (typed.RepairOptions, RepairRequest, set()),
        (typed.ExportOptions, ExportRequest, {"format", "columns"}),
    ],
)
def test_keywords_are_the_declared_options(
    keywords: type[Any], request_class: type[Any], more: set[str]
) -> None:
    assert keywords.__annotations__.keys() == {one.name for one in declared_options(request_class)} | more


def test_an_unknown_option_and_a_wrong_word_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="colour: no such option"):
        request_of(DumpRequest, {"colour": "red"})
    with pytest.raises(UsageError, match="row_types='row': give one of message"):
        request_of(DumpRequest, {"row_types": "row"})


def test_none_is_the_default() -> None:
    assert request_of(DumpRequest, {"topic": None, "on_corrupt": None, "hex": None}) == DumpRequest()
