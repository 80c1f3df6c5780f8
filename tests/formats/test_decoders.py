"""Decoders of fixed records: their fields are the schema's by name, and struct, numpy and construct agree."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import Decoder, layout
from rmqtool.formats.checkpoint import CHECKPOINTS, TIMER_CHECKPOINTS
from rmqtool.formats.consumequeue import BATCH_UNITS, EXT_HEADS, UNITS
from rmqtool.formats.index import HEADERS, ITEMS, SLOTS
from rmqtool.formats.message import RECORD_STARTS
from rmqtool.imports import imported_late

DECODERS: list[Decoder[Any]] = [
    UNITS, BATCH_UNITS, EXT_HEADS, HEADERS, SLOTS, ITEMS, CHECKPOINTS, RECORD_STARTS, TIMER_CHECKPOINTS
]  # fmt: skip
EACH = pytest.mark.parametrize("decoder", DECODERS, ids=lambda one: type(one.padded(b"")).__name__)


def snake_case(name: str, unit: str) -> str:
    """Return a schema's name of a field as a named tuple has it."""
    words = re.sub(r"[A-Z]", lambda capital: "_" + capital[0].lower(), name)
    return words + "_ms" if unit == "ms" else words


def test_construct_loads_its_debugger_when_it_is_used() -> None:
    script = "import sys, rmqtool.formats, construct; print('pdb' in sys.modules, construct.debug.pdb.Pdb)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False <class 'pdb.Pdb'>\n"


@EACH
def test_fields_are_the_schemas(decoder: Decoder[Any]) -> None:
    row = decoder.padded(b"")
    assert list(row._fields) == [snake_case(one.name, one.unit) for one in layout(decoder.schema)]
    assert set(get_type_hints(type(row)).values()) == {int}


@EACH
@given(st.data())
def test_all_readers_agree(decoder: Decoder[Any], data: st.DataObject) -> None:
    raw = data.draw(st.binary(min_size=decoder.size, max_size=decoder.size))
    parsed = decoder.schema.parse(raw)
    row = decoder.decode(b"\xff" + raw, 1)
    assert row == tuple(parsed[one.name] for one in layout(decoder.schema))
    assert row == decoder.padded(raw + b"more")
    assert row == tuple(np.frombuffer(raw, decoder.dtype)[0].tolist())
    assert decoder.encode(row) == raw


@EACH
def test_what_ends_too_early_is_none_or_zeros(decoder: Decoder[Any]) -> None:
    raw = bytes(range(1, decoder.size + 1))
    assert decoder.decode(raw[:-1]) is None
    assert decoder.decode(raw, 1) is None
    assert decoder.encode(decoder.padded(raw[:-1])) == raw[:-1] + b"\0"


def test_a_module_whose_import_is_put_off_can_be_used_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, or by what looks through all modules."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with imported_late("colorsys"):
        late = sys.modules["colorsys"]
        assert late.rgb_to_hsv is late.rgb_to_hsv
        assert sys.modules["colorsys"] is not late
    assert sys.modules["colorsys"].__file__
