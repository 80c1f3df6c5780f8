"""Messages as columns: encoders, Arrow arrays around their buffers, files of them.

Here are the columns, by their names in ndjson, and the forms of files of them. ``encoder`` fills their
buffers from a log on all cores, and from rows where kernels cannot; ``pieces`` cuts a log into tasks. Only
``arrow`` imports pyarrow, an extra of the package; nothing else may load it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import meant
from rmqtool.projection import BodyMode

if TYPE_CHECKING:
    from collections.abc import Iterable

_SOURCES = {"pyarrow": "pip install 'rmqtool[arrow]'", "pandas": "pip install pandas"}


def require_library(*names: str) -> None:
    """Check that libraries are installed, without loading them, else raise `EnvironmentFailureError`."""
    for name in names:
        if find_spec(name) is None:
            raise EnvironmentFailureError(f"{name} is not installed: {_SOURCES[name]} adds it")


EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Times of the years 1 to 9999, which every reader has; a damaged record may state any other."""

COLUMNS = {
    "file": "path of the file in the store",
    "position": "bytes from the start of the file",
    "physicalOffset": "PHYSICALOFFSET, bytes in the log",
    "totalSize": "TOTALSIZE, bytes",
    "magic": "V1, or V2 with a topic length of two bytes",
    "bodyCrc": "BODYCRC",
    "queueId": "QUEUEID",
    "flag": "FLAG, the application's",
    "queueOffset": "QUEUEOFFSET",
    "sysFlag": "SYSFLAG",
    "transactionType": "none, prepared, commit or rollback, of SYSFLAG",
    "bornTimestamp": "BORNTIMESTAMP",
    "bornHost": "BORNHOST as ip:port or [ip6]:port",
    "storeTimestamp": "STORETIMESTAMP",
    "storeHost": "STOREHOST",
    "reconsumeTimes": "RECONSUMETIMES",
    "preparedTransactionOffset": "PREPAREDTRANSACTIONOFFSET",
    "topic": "TOPIC",
    "bodyLength": "bytes of the body in the log",
    "body": "BODY as stored, or decompressed",
    "properties": "PROPERTIES, names to values",
    "tags": "property TAGS",
    "keys": "property KEYS, cut at blanks",
    "uniqKey": "property UNIQ_KEY",
    "tagsCode": "tagsCode of the consume queue: hash of the tags, or time of delivery",
    "msgId": "offset message id",
    "damage": "codes of the findings on the record",
}
"""Content of each; RocketMQ's own names of fields are in capitals."""


class FileFormat(StrEnum):
    """Format of files."""

    PARQUET = "parquet"
    ARROW = "arrow"
    NDJSON = "ndjson"
    CSV = "csv"

    @property
    def is_lines(self) -> bool:
        """Whether it is text, which holds any number."""
        return self in {FileFormat.NDJSON, FileFormat.CSV}


class Partition(StrEnum):
    """Key by which messages are divided into files."""

    TOPIC = "topic"
    DAY = "day"  # of storing, in UTC


class FileForm(NamedTuple):
    """Form of files of columns; ``partition`` None makes one sequence of files."""

    format: FileFormat
    bodies: BodyMode = BodyMode.TEXT
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """One file of columns.

    Attributes:
        name: Path in the output, ``/`` between its components.
        messages: Number of its messages.
        bytes: Size of the file.
        topic: Topic of its folder, if the folder's name cuts it; else None.
    """

    name: str
    messages: int
    bytes: int
    topic: str | None = None


class ColumnChoice(NamedTuple):
    """Columns in the order of the result; ``decompress`` unpacks bodies that SYSFLAG says are compressed."""

    names: tuple[str, ...] = tuple(COLUMNS)
    decompress: bool = False


def column_names(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return checked names of columns, all for None."""
    if names is None:
        return tuple(COLUMNS)
    if isinstance(names, str):
        raise UsageError(f"columns={names!r}: give a list of names")
    chosen = tuple(names)
    for name in chosen:
        if name not in COLUMNS:
            hint = meant(name, COLUMNS, f"there are {', '.join(COLUMNS)}")
            raise UsageError(f"there is no column {name!r}; {hint}")
        if chosen.count(name) > 1:
            raise UsageError(f"the column {name} is named twice")
    if not chosen:
        raise UsageError(f"no column is named; there are {', '.join(COLUMNS)}")
    return chosen


def names_in_files(names: Iterable[str], partition: Partition | None) -> tuple[str, ...]:
    """Return the columns of files, without a topic that names their folder; `UsageError` if none is left."""
    left = tuple(name for name in names if partition is not Partition.TOPIC or name != "topic")
    if not left:
        raise UsageError(
            "the column topic alone, set apart by topic, leaves files without a column: name another column,"
            " too, or set nothing apart"
        )
    return left
