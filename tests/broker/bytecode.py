"""The bytecode of released classes, in a form in which two releases can be compared.

What changes with any other line of a class is taken away: positions, numbers of local variables, of the pool
of constants, of lambdas and of accessors. One ``javap`` reads all that is wanted of a release, as it takes
seconds to start.
"""

from __future__ import annotations

import re
import subprocess
from difflib import unified_diff
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

Members = dict[str, list[str]]
"""Lines by the name of the method or field they stand in; overloads and lambdas are with their method."""

_PACKAGE = "org/apache/rocketmq/"
_CLASS = re.compile(r"(?:[a-z]+ )*(?:class|interface) ([\w.$]+)")
_MEMBER = re.compile(r"  \S.*?([\w.$]+)(?:\(.*| = .*|;)$")
_STATIC = "  static {};"
_INSTRUCTION = re.compile(r"\s+\d+: (.*)")
_HANDLER = re.compile(r"\s+\d+\s+\d+\s+\d+\s+(Class .*|any)")
_CASE = re.compile(r"\s+(-?\d+|default): \d+")
_OPERAND = re.compile(r"\b(goto|if\w*|jsr|[ailfd](?:load|store)|ldc|iinc)(?:_w|_\d)?(?:\s+\d+,?)?(?=\s|$)")
_NUMBERS = re.compile(r"#\d+(?:,\s+\d+)?\s+// |(?<=Dynamic )#\d+|(?<=\w)\$\d+\b")
_PADDING = re.compile(r"\s{2,}")
_CONSTANT = re.compile(r"ldc\w*\s+String | = ")


def bytecode(jars: Sequence[Path], names: Collection[str]) -> dict[str, Members]:
    """Return the members of classes by their simple names; what no jar has is absent.

    Raises:
        subprocess.CalledProcessError: javap failed.
    """
    found: dict[str, Members] = {}
    full = [name for jar in jars for name in _class_names(jar) if simple_name(name) in names]
    if not full:
        return found
    command = ["javap", "-c", "-p", "-constants", "-cp", ":".join(map(str, jars)), *full]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name, member, line in _lines(text.splitlines()):
        found.setdefault(name, {}).setdefault(member, []).append(line)
    return found


def simple_name(full: str) -> str:
    """Return the name that a class is cited by: an inner one by its own, a nameless one by its owner's."""
    parts = full.rpartition(".")[2].split("$")
    return [part for part in parts if not part.isdigit()][-1]


def constants_changed(old: Members, new: Members) -> list[str]:
    """Return the constants and texts that went, ``- LINE``, and those that came, ``+ LINE``."""
    before, after = (
        {line for lines in members.values() for line in lines if _CONSTANT.search(line)}
        for members in (old, new)
    )
    return [
        *(f"- {line}" for line in sorted(before - after)),
        *(f"+ {line}" for line in sorted(after - before)),
    ]


def change(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the lines that a member lost, ``-LINE``, and got, ``+LINE``; none if it is the same."""
    return [line for line in unified_diff(old, new, n=0, lineterm="") if line[:2] not in {"--", "++", "@@"}]


def _class_names(jar: Path) -> list[str]:
    with ZipFile(jar) as archive:
        paths = [path for path in archive.namelist() if path.startswith(_PACKAGE) and path.endswith(".class")]
    return [path.removesuffix(".class").replace("/", ".") for path in paths]


def _lines(text: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield class, member and comparable line of what javap printed."""
    name = member = ""
    for line in text:
        if head := _CLASS.match(line):
            name, member = simple_name(head[1]), ""
        elif line == _STATIC:
            member = "<clinit>"
        elif head := _MEMBER.match(line):
            member = _member_name(head[1], name)
        if member and line.startswith(" ") and line.strip():
            yield name, member, comparable(line)


def _member_name(written: str, owner: str) -> str:
    """Return the name of a member: a constructor's is written as its class, a lambda's holds its method's."""
    last = written.rpartition(".")[2]
    if last.startswith("lambda$"):
        return last.split("$")[1]
    return "<init>" if "." in written and simple_name(written) == owner else last


def comparable(line: str) -> str:
    """Return a line of javap's without what changes when another method does."""
    if found := _CASE.fullmatch(line):
        return f"case {found[1]}"
    if found := _HANDLER.fullmatch(line):
        return f"catch {found[1]}"
    instruction = _INSTRUCTION.fullmatch(line)
    words = _NUMBERS.sub("", instruction[1] if instruction else line.strip())
    return _PADDING.sub(" ", _OPERAND.sub(r"\1", words), count=1)
