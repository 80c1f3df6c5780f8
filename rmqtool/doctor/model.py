"""Results of the doctor, shared by ``verify``, ``repair`` and ``salvage``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rmqtool.findings.wording import counted
from rmqtool.store.broker_json import LARGEST_CONFIG

if TYPE_CHECKING:
    from rmqtool.doctor.copies import ConfigCopy
    from rmqtool.io import Location


class BrokerTakes(StrEnum):
    """Copy that a broker started on the files as they are loads (``ConfigManager#load``)."""

    FILE = "file"
    BACKUP = "bak"
    NOTHING = "nothing"  # it starts, and has forgotten all of it
    REFUSES = "refuses"  # it does not start


@dataclass(frozen=True, slots=True)
class OffsetEffect:
    """Effect of a choice on one reader of one queue; numbers are messages of that queue.

    Nobody knows how far the reader really was. Known is how far it was at least, by the copies that are left
    (``proven``), and where the queue ends.

    Attributes:
        reader: ``group G`` or ``delay level N``.
        topic: of the queue.
        queue_id: of the queue.
        offset: next queue offset to be read by this choice; None if it says nothing: the reader starts again.
        proven: the highest offset that any copy has; None if none has one.
        min_offset: of the queue; None without one.
        max_offset: of the queue; None without one.
        again_at_least: messages that come again for certain: the reader had them.
        again_at_most: messages that can come again: it had no more than all.
        skipped_at_most: messages that it may never have got, and will not get.
    """

    reader: str
    topic: str
    queue_id: int
    offset: int | None
    proven: int | None
    min_offset: int | None
    max_offset: int | None
    again_at_least: int
    again_at_most: int
    skipped_at_most: int


@dataclass(frozen=True, slots=True)
class ConfigChoice:
    """One choice.

    Attributes:
        name: ``file``, ``bak``, ``tmp``, ``prefix``, ``merged``, ``queues``, ``oldest`` or ``newest``.
        about: what it is, in words.
        entries: how many it has.
        missing: entries that another copy has, or that the queues show, and this choice has not.
        again_at_least: sum over its effects.
        again_at_most: sum over its effects.
        skipped_at_most: sum over its effects.
        effects: by reader and queue; empty for files that hold no offsets.
        copy_of: the copy whose bytes it is, relative to the store; None if they are put together.
        document: what it holds.
    """

    name: str
    about: str
    entries: int
    missing: tuple[str, ...]
    again_at_least: int
    again_at_most: int
    skipped_at_most: int
    effects: tuple[OffsetEffect, ...]
    copy_of: str | None
    document: dict[str, Any] = field(repr=False)

    def consequences(self) -> list[str]:
        """Say, as parts of a sentence, how much it holds and what it means for those who read queues."""
        said = [counted(self.entries, "entry", "entries", spec=",")]
        if self.effects:
            said.append(f"{self.again_at_least:,} to {self.again_at_most:,} messages again")
            said.append(f"up to {self.skipped_at_most:,} skipped")
        return said

    def data(self, root: Location) -> bytes:
        """Return its bytes: those of a copy, or such as brokers of all versions read.

        Keys stand in quotes, bytes that were no UTF-8 as they were.

        Args:
            root: of the store.

        Raises:
            EnvironmentFailureError: the copy cannot be read any more.
        """
        if self.copy_of is not None:
            return (root / self.copy_of).read_head(LARGEST_CONFIG)
        text = json.dumps(self.document, ensure_ascii=False, indent=1)
        return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class ConfigDiagnosis:
    """Copies of one file that are left, and choices.

    Attributes:
        file: its name relative to the store.
        copies: the file itself, its ``.bak`` and its ``.tmp``, as far as they are there.
        broker: what a broker takes that is started now.
        loses: what a broker that takes nothing has forgotten, as a sentence goes on.
        choices: the best first; empty for a file that is sound.
        obvious: whether the first is the doctor's own: nothing is lost that another choice would keep. Where
            it is not, the user has to choose.
    """

    file: str
    copies: tuple[ConfigCopy, ...]
    broker: BrokerTakes
    loses: str
    choices: tuple[ConfigChoice, ...]
    obvious: bool

    @property
    def is_sound(self) -> bool:
        """Whether a broker reads the file itself."""
        return self.broker is BrokerTakes.FILE

    def choice(self, name: str) -> ConfigChoice | None:
        """Return a choice by its name; None if there is none such."""
        return next((one for one in self.choices if one.name == name), None)
