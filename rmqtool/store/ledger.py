"""Places of a DLedger log: ``dledger-ID/`` in a store root, whose ``data/`` is the log of the member ID."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.framing import DLEDGER, PLAIN, Framing
from rmqtool.io import FileKind
from rmqtool.store.segments import StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.io import Location

MEMBERS = "dledger-*"
CARVED_MEMBER = "dledger-carved"
"""Of entries that were carved: no record names a member."""
DATA, ENTRY_INDEX = "data", "index"
CHECKPOINT = "checkpoint"
PROGRESS = {"currterm": "currTerm", CHECKPOINT: "committedIndex"}
"""Files of Java properties of a member, and the number that each is for."""
_FILES = 20 * "[0-9]"
_PROPERTIES_BYTES = 4096
_NUMBER = re.compile(rb"-?[0-9]{1,19}")


def is_data(directory: Location) -> bool:
    """Return whether a directory is, by its place, that of a member's entries."""
    return directory.name == DATA and directory.parent.name.startswith(MEMBERS.rstrip("*"))


def is_member(directory: Location) -> bool:
    """Return whether a directory is that of a member, which has entries in it."""
    return is_data(directory / DATA) and (directory / DATA).is_directory()


def framing_in(directory: Location) -> Framing:
    """Return the framing of the log's files in a directory."""
    return DLEDGER if is_data(directory) else PLAIN


def data_of(root: Location, log: Iterable[Location], *, enabled: object, member: object) -> Location | None:
    """Return the directory of the entries that a broker on a store root goes by; None where that is open.

    Several members' directories are copies of one log, of which ``dLegerSelfId`` names the broker's own. Its
    entries follow the older files of a broker that was converted (dledger 0.3.1.2).

    Args:
        root: The store root.
        log: Directories of the older files.
        enabled: ``enableDLegerCommitLog``; None where it is not given.
        member: ``dLegerSelfId``; None where it is not given.
    """
    if enabled is False:
        return None
    name = MEMBERS if member is None else MEMBERS.replace("*", str(member))
    files = [file for place in {name, CARVED_MEMBER} for file in root.matching(f"{place}/{DATA}/{_FILES}")]
    if len({file.parent for file in files}) != 1:
        return None
    older = [file.name for directory in log for file in directory.matching(_FILES)]
    return files[0].parent if files[0].name > max(older, default="") else None


def unit_files(member: Location) -> dict[int, StoreFile]:
    """Return the files of a member's index of entries, by the position of their first byte in it."""
    files = ((path, path.status()) for path in member.matching(f"{ENTRY_INDEX}/{_FILES}"))
    return {
        int(path.name): StoreFile(path, f"{member.name}/{ENTRY_INDEX}/{path.name}", status.size_bytes)
        for path, status in sorted(files, key=lambda file: file[0].name)
        if status is not None and status.kind is FileKind.FILE
    }


class MemberProgress(NamedTuple):
    """Progress of a member, as its ``currterm`` and ``checkpoint`` say; None where they do not.

    Attributes:
        term: of the last election.
        committed: index of the last entry that was known to be committed, some seconds before a kill.
    """

    term: int | None
    committed: int | None

    @property
    def sentence(self) -> str:
        """Return both, in words."""
        term, committed = ("?" if number is None else number for number in self)
        return f"in term {term}, committed up to entry {committed}"


def progress_of(member: Location) -> MemberProgress:
    """Return the progress of a member."""
    said = (property_in(member / file, name) or b"" for file, name in PROGRESS.items())
    return MemberProgress(*(int(text) if _NUMBER.fullmatch(text) else None for text in said))


def property_in(path: Location, name: str) -> bytes | None:
    """Return what a file of Java properties says for a name; None if it does not, or is not read."""
    try:
        text = path.read_head(_PROPERTIES_BYTES, []) if path.is_regular() else b""
    except EnvironmentFailureError:
        return None
    match = re.search(rf"^[ \t]*{name}[ \t]*[=:][ \t]*(\S*)".encode(), text, re.MULTILINE)
    return match[1] if match else None
