"""The bytes of a record: JSON whose last member is the digest of all bytes before that member."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqtool.projection import json_object

if TYPE_CHECKING:
    from rmqtool.commands.case.model import CaseRecord

_HEAD, _END = ',\n "sha256": "', '"\n}\n'
_SEAL = re.compile(re.escape(_HEAD).encode() + rb"([0-9a-f]{64})" + re.escape(_END).encode())
SEAL_BYTES = len(_HEAD) + 64 + len(_END)
"""``head -c -82 0001.json | sha256sum`` prints the digest."""


class BrokenSealError(ValueError):
    """Bytes are no record, or not the ones that were sealed."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A record as it was read.

    Attributes:
        document: what it says.
        sha256: its digest.
    """

    document: dict[str, Any]
    sha256: str


def seal(record: CaseRecord) -> bytes:
    """Return the bytes of a record's file."""
    text = json.dumps(json_object(record), indent=1).removesuffix("\n}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text}{_HEAD}{digest}{_END}".encode()


def unseal(data: bytes) -> Sealed:
    """Return what a record's file says.

    Raises:
        BrokenSealError: It was altered, or never was a record.
    """
    body, tail = data[:-SEAL_BYTES], data[-SEAL_BYTES:]
    found = _SEAL.fullmatch(tail)
    if found is None:
        raise BrokenSealError("has no digest at its end")
    digest = hashlib.sha256(body).hexdigest()
    if digest != found[1].decode():
        raise BrokenSealError(f"is not what was recorded: its SHA-256 is {digest}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as failure:
        raise BrokenSealError(f"is no JSON: {failure}") from failure
    if not isinstance(document, dict):
        raise BrokenSealError("is no record")
    return Sealed(document, digest)
