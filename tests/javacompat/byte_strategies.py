"""Bytes as they may stand in a store: any, good UTF-8, and mixtures of good, cut and malformed sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

if TYPE_CHECKING:
    import numpy.typing as npt

SEPARATORS = [b"\x00", b"\x01", b"\x02", b"\x03", b" "]
NAMES = ["KEYS", "UNIQ_KEY", "TAGS", "DELAY", "INNER_MULTI_QUEUE_OFFSET", "TAG", "K"]
_ENCODED_SURROGATES = st.integers(0xD800, 0xDFFF).map(lambda unit: chr(unit).encode("utf-8", "surrogatepass"))
_CHARACTERS = st.characters(exclude_categories=["Cs"]).map(lambda character: character.encode())
_WHOLE = st.one_of(_CHARACTERS, _ENCODED_SURROGATES)
_CUT = st.builds(lambda whole, size: whole[:size], _WHOLE, st.integers(1, 3))
_BORDERS = st.sampled_from(
    [bytes([byte]) for byte in b"\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xe0\xed\xef\xf0\xf4\xf5\xff"]
)
_ASCII = st.text(st.characters(max_codepoint=0x7F), min_size=1, max_size=20).map(str.encode)


def mixed_bytes() -> st.SearchStrategy[bytes]:
    """Give random bytes, valid UTF-8, or whole, cut and malformed sequences one after the other."""
    pieces = st.lists(st.one_of(_ASCII, _WHOLE, _CUT, _BORDERS), max_size=12).map(b"".join)
    return st.one_of(
        st.binary(max_size=40), st.text(max_size=40).map(lambda text: text.encode(errors="ignore")), pieces
    )


def property_bytes() -> st.SearchStrategy[bytes]:
    """Give property strings with well-formed, empty, doubled, cut and malformed properties."""
    name = st.one_of(st.sampled_from(NAMES).map(str.encode), mixed_bytes())
    whole = st.builds(lambda n, v: n + b"\x01" + v + b"\x02", name, mixed_bytes())
    loose = st.one_of(st.sampled_from(SEPARATORS), name, st.binary(max_size=4))
    return st.lists(st.one_of(whole, whole, loose), max_size=8).map(b"".join)


def key_bytes() -> st.SearchStrategy[bytes]:
    """Give KEYS values: pieces and spaces, tabs and commas in any order."""
    return st.lists(st.one_of(mixed_bytes(), st.sampled_from([b" ", b"  ", b"\t", b","])), max_size=8).map(
        b"".join
    )


def placed(data: bytes, before: int, after: int) -> tuple[npt.NDArray[np.uint8], int, int]:
    """Put bytes into a buffer whose other bytes would change any answer; give it with start and stop."""
    filling = b"\x31\x01\x31\x02\xe4\xbd"
    buffer = (filling * 4)[:before] + data + (filling * 4)[:after]
    return np.array(bytearray(buffer), dtype=np.uint8), before, before + len(data)
