"""Java's ``.properties`` text, the form of ``broker.conf``.

Java: ``Properties#load(InputStream)``, which ``BrokerStartup`` calls (4.9.8, 5.3.3): ISO-8859-1, continued
lines, three separators, escapes. The last of equal names wins.
"""

from __future__ import annotations

import re

from rmqtool.errors import UsageError

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = re.compile(r"[0-9A-Fa-f]{4}")


def parse_java_properties(data: bytes) -> dict[str, str]:
    r"""Return a properties file's values by name, trimmed only before the value, as Java does.

    Raises `UsageError` for a ``\u`` escape without four hexadecimal digits: Java refuses the whole file.
    """
    properties = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    """Join continued lines, drop blank lines and comments."""
    lines: list[str] = []
    pending: str | None = None
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        joined = (pending or "") + line
        # A continued line that is blank ends the logical line; one that starts with '#' is not a comment.
        pending = joined[:-1] if line and _ends_in_continuation(line) else None
        if pending is None and joined:
            lines.append(joined)
    if pending:
        lines.append(pending)
    return lines


def _ends_in_continuation(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Cut a logical line at its first unescaped ``=``, ``:`` or blank, and drop one separator with blanks."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\" and position < len(text):
            char = text[position]
            position += 1
            if char == "u":
                char = _code_unit(text, position)
                position += 4
            else:
                char = _ESCAPES.get(char, char)
        pieces.append(char)
    return _join_surrogates("".join(pieces))


def _code_unit(text: str, position: int) -> str:
    digits = text[position : position + 4]
    if not _UNICODE_DIGITS.fullmatch(digits):
        raise UsageError(f"malformed escape '\\u{digits}' in a properties file; a broker refuses it too")
    return chr(int(digits, 16))


def _join_surrogates(text: str) -> str:
    """Make one character of two escaped surrogates, as Java's UTF-16 does by itself."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
