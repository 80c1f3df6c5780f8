"""What ``dump`` writes for programs, read as users read it: integers stay integers."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES
from tests.extra import library

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

pytestmark = pytest.mark.soak

pd = library("pandas")

NAMES = ("plain-5.3.3", "delay-4.9.8", "transaction-5.3.3", "unicode-5.3.3", "ipv6-5.5.1", "lmq-5.5.1")
INTEGERS = {
    "message": (
        "position physicalOffset totalSize bodyCrc queueId flag queueOffset sysFlag bornTimestamp"
        " storeTimestamp reconsumeTimes preparedTransactionOffset bodyLength tagsCode"
    ),
    "unit": "position queueId queueOffset physicalOffset size tagsCode",
    "item": "item slot keyHash physicalOffset timeDiff previous",
    "index-header": "beginTimestamp endTimestamp beginPhyOffset endPhyOffset hashSlotCount indexCount",
}
"""Columns of each type of row that hold a number in every row."""


@pytest.mark.parametrize("form", ["ndjson", "csv"])
@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", NAMES)
def test_integer_columns_are_integers(run: Callable[..., Run], name: str, kind: str, form: str) -> None:
    """Every value, too: none was rounded on its way through a float."""
    asked = ("dump", STORES / name, "--rows", kind, "-c", STORES / name / "broker.conf", "--body", "base64")
    found = run(*asked, "--format", form)
    truth = [one for one in run(*asked, "--format", "ndjson").objects if one["type"] == kind]
    assert (found.status, bool(truth)) == (0, True)
    if form == "csv":
        table = pd.read_csv(io.StringIO(found.out), keep_default_na=False)
    else:
        table = pd.read_json(io.StringIO(found.out), lines=True)
    table = table[table["type"] == kind]
    columns = INTEGERS[kind].split()
    assert {name: str(table[name].dtype) for name in columns} == dict.fromkeys(columns, "int64")
    assert json.loads(table[columns].to_json(orient="records")) == [
        {name: one[name] for name in columns} for one in truth
    ]
