r"""The format of ``sha256sum``: ``digest  name``, or ``\digest  name`` where the name has escapes.

Names are bytes: a file system does not promise UTF-8. Escaped are backslash, line feed and carriage return.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LINE = re.compile(rb"(\\?)([0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_MEANINGS = {escape: meant for meant, escape in _ESCAPES.items()}
_HARMFUL = re.compile(rb"[\\\n\r]")
_ESCAPE = re.compile(rb"\\[\\nr]")


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """One file of a manifest.

    ``name`` is the path relative to the store, as the file system has it; ``digest`` is SHA-256 in lower-case
    hexadecimal digits.
    """

    name: bytes
    digest: str

    def to_bytes(self) -> bytes:
        """Return the line as ``sha256sum`` writes it, with its line end."""
        name = _HARMFUL.sub(lambda match: _ESCAPES[match[0]], self.name)
        mark = b"\\" if name != self.name else b""
        return mark + self.digest.encode() + b"  " + name + b"\n"


def parse_line(line: bytes) -> ManifestLine | None:
    """Return a line's content (without its line end), or None if it is not a line of ``sha256sum``."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name = match[3]
    if match[1]:
        name = _ESCAPE.sub(lambda escape: _MEANINGS[escape[0]], name)
    return ManifestLine(name.removeprefix(b"./"), match[2].decode().lower())


def manifest_lines(files: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield lines that ``sha256sum -c`` checks, by name, from names and digests.

    Bytes of names that are not UTF-8 are surrogates.
    """
    for name, digest in sorted(files):
        line = ManifestLine(name.encode("utf-8", "surrogateescape"), digest)
        yield line.to_bytes().decode("utf-8", "surrogateescape")
