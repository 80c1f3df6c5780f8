"""``convert``: the log of DLedger in a store as a plain log, in a new store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from rmqtool import options
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, counted
from rmqtool.store.results import fetched, resting_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.engine import EngineOptions
    from rmqtool.store import Store


class Form(StrEnum):
    """Layouts of a new store."""

    PLAIN = "plain"


@dataclass(frozen=True)
class ConvertRequest:
    """Request of a conversion."""

    store: Store
    engine: EngineOptions
    to: Form = options.word(Form, Form.PLAIN, "Layout of the result.")
    include_uncommitted: bool = options.flag(
        "Also take entries at the end that are not known to be committed: another leader may have replaced"
        " them, and consumers have not seen them."
    )


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file of entries, and the plain one of the same name.

    The record of entry i moves from ``pos + 48`` to ``pos - 48 * (i - firstEntry)``, where ``pos`` is the
    entry's own address.

    Attributes:
        file: name of both.
        first_entry: index of its first entry.
        entries: taken into the plain file.
        end: physical offset after its last record in the plain log.
    """

    file: str
    first_entry: int
    entries: int
    end: int


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """The outcome of a conversion.

    Attributes:
        store: its path.
        out: path of the result.
        member: directory of the entries.
        term: of the last entry that was taken or left out.
        committed: index of the last entry that is committed by the member's checkpoint; None where that does
            not say.
        entries: taken.
        uncommitted: entries at the end that were left out.
        kept_files: older files of a broker that was converted to DLedger, as they are.
        start: physical offset of the new log's first byte.
        end: that after its last record.
        files: files of entries.
        addresses: addresses that were mapped, by kind: ``preparedTransactionOffset`` the field,
            ``messageIds`` and ``halfMessageOffsets`` in properties, ``timerUnits``; and ``unknown``, which
            lead to no entry, such as an expired one, and stay.
        messages: dispatched to queues and index, of older files, too.
        units: written.
        index_entries: written.
        queues: made of the log.
        kept_queues: queues all of whose messages have expired, as they are.
        assumed: settings that no file shows, and what queues and index rest on by them.
        not_copied: files and parts of the store that the result has not, and why.
        seconds: wall time of each stage.
    """

    schema: ClassVar = "rmqtool.convert/1"
    store: str
    out: str
    member: str
    term: int
    committed: int | None
    entries: int
    uncommitted: int
    kept_files: int
    start: int
    end: int
    files: tuple[MappedFile, ...]
    addresses: Mapping[str, int]
    messages: int
    units: int
    index_entries: int
    queues: int
    kept_queues: int
    assumed: Mapping[str, str]
    not_copied: Mapping[str, str]
    seconds: Mapping[str, float]

    @property
    def verdict(self) -> str:
        """Return the outcome in one or two sentences."""
        told = (
            f"{counted(self.entries, 'entry', 'entries', spec=',')} converted, queue offsets are as before."
        )
        if self.uncommitted:
            left = counted(self.uncommitted, "entry", "entries", spec=",")
            told += (
                f" {left} at the end left out, not known to be committed: --include-uncommitted takes them."
            )
        return told

    @property
    def hint(self) -> str:
        """Return what to do next."""
        hint, place = fetched(self.out)
        return (
            f"{hint}{resting_on(self.assumed)}To use it:\n  rmqtool verify {place}\nThen start a broker on a"
            " copy of it (storePathRootDir, and storePathCommitLog where that is set), with the old settings"
            " but enableDLegerCommitLog=false."
        )

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 0: of a damaged log nothing is made."""
        del fail_on
        return ExitStatus.CLEAN
