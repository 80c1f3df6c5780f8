"""Output of a command: its formats, its stream, and files that appear whole and lie in no evidence."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from rmqtool.errors import EnvironmentFailureError, ExitStatus, RefusedError, UsageError, writing
from rmqtool.findings import counted
from rmqtool.projection import BodyMode, columns_of, encoded_body, json_object
from rmqtool.report.terminal import escape_bytes, escape_cell, escape_json, is_cell_text
from rmqtool.store.names import directory_around, real_path
from rmqtool.times import present_ms, utc_text
from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from _typeshed import DataclassInstance

    from rmqtool import rows
    from rmqtool.rows import InnerMessage, Message


_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Format(StrEnum):
    """Values of ``--format``."""

    TEXT = "text"
    HTML = "html"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    REPLAY = "replay"


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON text that is harmless on a terminal."""
    return escape_json(
        _ENCODER.encode(value) if indent is None else json.dumps(value, ensure_ascii=False, indent=indent)
    )


_SECRET = r"(?is)((?:--[\w-]+=)?[\w.-]*(?:secret|password|token|credential|access.?key)[\w.-]*=).+"


def without_secret(word: str) -> str:
    """Return a word of a command line; the value of a setting that names a secret is hidden."""
    return re.sub(_SECRET, r"\1***", word)


@dataclass(slots=True)
class RunningCommand:
    """The command that this process runs; ``arguments`` are those of its line, None without one."""

    arguments: Sequence[str] | None = None
    begin_ms: int = 0

    @property
    def member(self) -> dict[str, Any]:
        """Return the member ``run`` of a document that is written now; nothing without a command line."""
        if self.arguments is None:
            return {}
        times = {"begin": utc_text(self.begin_ms), "end": utc_text(present_ms())}
        arguments = [without_secret(word) for word in self.arguments]
        return {"run": {"version": __version__, "arguments": arguments, **times}}


RUNNING = RunningCommand()


def document_of(report: DataclassInstance, status: int) -> dict[str, Any]:
    """Return the document of a report, with the exit status that the user's options give."""
    return json_object(report) | {"exitStatus": int(status)}


def report_json(report: DataclassInstance, status: int) -> str:
    """Return the JSON text of `document_of`, with the member of the run."""
    return to_json(document_of(report, status) | RUNNING.member, indent=2) + "\n"


def csv_cell(value: object) -> object:
    """Return a value for a cell of csv: harmless text, a number, nothing for None, JSON for the rest."""
    if isinstance(value, str):
        return escape_cell(value)
    return to_json(value) if isinstance(value, list | dict | bool) else value


_STEPS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: float) -> str:
    """Return a number of bytes with a unit, three digits or so."""
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    value = float(size_bytes)
    for step in _STEPS:
        value /= 1024
        if value < 1024 or step == _STEPS[-1]:
            return f"{value:.1f} {step}"
    raise AssertionError("the last step returns")


def several(count: int, noun: str, nouns: str = "") -> str:
    """Return a count with separators of thousands, and its noun; ``nouns`` is an irregular plural."""
    return counted(count, noun, nouns, spec=",")


def capped(
    name: str, lines: Iterable[str], noun: str, *, more: int = 0, listed: int = 20
) -> Iterator[tuple[str, str]]:
    """Yield figures of one name, and after the first of them the number of the others, ``more`` included."""
    every = list(lines)
    yield from ((name, line) for line in every[:listed])
    left = max(len(every) - listed, 0) + more
    if left:
        yield name, f"and {several(left, noun)} more, see --format json"


JsonValue = str | int | None | list[str] | list[int] | dict[str, str] | dict[str, object]


def body_text(body: bytes, mode: BodyMode) -> str | None:
    r"""Return a body for people: text is on one line, with bytes that are not UTF-8 as ``\xNN``."""
    return escape_bytes(body) if mode is BodyMode.TEXT else encoded_body(body, mode)[0]


def row_object(row: rows.Row, body: BodyMode, *, one_cell: bool = False) -> dict[str, JsonValue]:
    """Return a row as an object; its ``type`` comes first.

    With ``one_cell``, as in csv, nothing escapes controls later, so a body with controls is base64.
    """
    fits = is_cell_text if one_cell else None
    return json_object(row, lambda raw: encoded_body(raw, body, fits))


def write_records(
    records: Iterable[Any],
    schema: str,
    kind: type[Any],
    end: Callable[[], tuple[ExitStatus, Mapping[str, Any]]],
    chosen: Format,
    stream: TextIO,
) -> None:
    """Write rows in a format for programs, each as it comes.

    ``schema`` is name and version, for the json document and the summary of ndjson; ``kind`` names the
    columns. ``end`` is called after the last row, for the exit status and members of the json document, which
    are a last line of ndjson of type ``summary``, too.
    """
    if chosen is Format.CSV:
        write_csv(stream, columns_of(kind), map(json_object, records))
    elif chosen is Format.NDJSON:
        for record in records:
            stream.write(to_json(json_object(record)) + "\n")
        _, more = end()
        if more:
            stream.write(to_json({"type": "summary", "schema": schema, **more}) + "\n")
    else:
        _write_json(stream, records, schema)
        status, more = end()
        for name, value in (*more.items(), ("exitStatus", int(status)), *RUNNING.member.items()):
            stream.write(f",\n  {to_json(name)}: {to_json(value)}")
        stream.write("\n}\n")


def _write_json(stream: TextIO, records: Iterable[Any], schema: str) -> None:
    stream.write(f'{{\n  "schema": {to_json(schema)},\n  "rows": [')
    separator = "\n"
    for record in records:
        stream.write(f"{separator}    {to_json(json_object(record))}")
        separator = ",\n"
    stream.write("]" if separator == "\n" else "\n  ]")


def write_csv(stream: TextIO, columns: Iterable[str], objects: Iterable[Mapping[str, Any]]) -> None:
    """Write objects that have these members, in this order."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([csv_cell(value) for value in members.values()] for members in objects)


def write_document(
    chosen: Format,
    stream: TextIO,
    document: Callable[[], Mapping[str, Any]],
    lines: Callable[[], Iterable[Mapping[str, Any]]],
    columns: Iterable[str],
    rows: Callable[[], Iterable[Mapping[str, Any]]],
) -> None:
    """Write a report for programs: one document, its lines of ndjson, or its rows as csv."""
    if chosen is Format.JSON:
        stream.write(to_json({**document(), **RUNNING.member}, indent=2) + "\n")
    elif chosen is Format.NDJSON:
        stream.writelines(to_json(value) + "\n" for value in lines())
    else:
        write_csv(stream, columns, rows())


_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NAMELESS = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)  # 0 fails on a directory
_OWN_FILES = "/proc/self/fd"
_MODE = 0o644  # minus umask
_PERMISSIONS = 0o777


def refuse_evidence(path: Path, evidence_roots: Iterable[Path]) -> None:
    """Raise `RefusedError` for a path inside the store that is read."""
    root = directory_around(path, evidence_roots)
    if root is not None:
        raise RefusedError(f"{path}: lies in {root}, which is only read; write elsewhere")


def check_output_files(
    paths: Iterable[Path | None], evidence_roots: Sequence[Path], new: Iterable[Path | None] = ()
) -> None:
    """Check, before the work begins, that results can be written to some paths.

    Args:
        paths: Reports, which replace existing files; None is none.
        evidence_roots: Directories that nothing is written into.
        new: Files that prove something, such as a manifest or lost messages; they replace nothing.
    """
    proofs = [path for path in new if path is not None]
    for path in proofs:
        if path.is_symlink() or (path.exists() and not _is_special(path)):
            raise RefusedError(f"{path}: exists; remove it or give another name")
    every = [path for path in paths if path is not None] + proofs
    for number, path in enumerate(every):
        refuse_evidence(path, evidence_roots)
        if path.is_dir():
            raise UsageError(f"{path}: is a directory; give the name of a file")
        real = real_path(path)
        if not real.parent.is_dir():
            raise EnvironmentFailureError(f"{path}: cannot be created: no directory {real.parent}")
        if not _is_special(path) and real in map(real_path, every[:number]):
            raise UsageError(f"{path}: two outputs cannot be one file")


def write_whole(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file that has its name when it is complete.

    ``sync`` makes it outlive a loss of power, for some milliseconds. Raises `EnvironmentFailureError` if it
    fails; the old file stays, and nothing else is left.
    """
    with staged_file(path, sync=sync) as file, writing(path):
        file.write(data)


@contextmanager
def staged_file(path: Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears after success; a device or a FIFO receives bytes as they come.

    Until then it has no name where the file system allows that, so that a kill leaves nothing, else a hidden
    one. It keeps the permissions of the file that it replaces; a link stays, and its target is replaced.
    Raises `EnvironmentFailureError` if it cannot be created or completed; the old file stays.
    """
    if _is_special(path):
        with writing(path):
            device = path.open("wb")
        with _closed_after(device):
            yield device
            with writing(path):
                device.flush()
        return
    target = real_path(path)
    attempt = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}")
    try:
        with writing(path):
            descriptor, is_nameless = _open_attempt(attempt)
            if target.exists():
                os.fchmod(descriptor, target.stat().st_mode & _PERMISSIONS)
        with _closed_after(os.fdopen(descriptor, "wb")) as file:
            yield file
            with writing(path):
                file.flush()
                if sync:
                    os.fsync(file.fileno())
                if is_nameless:
                    _name(descriptor, attempt)
        with writing(path):
            attempt.replace(target)
    finally:
        attempt.unlink(missing_ok=True)


def _open_attempt(attempt: Path) -> tuple[int, bool]:
    """Create a file beside its place, and return whether it has no name yet."""
    if os.path.lexists(_OWN_FILES):
        with suppress(OSError):
            return os.open(attempt.parent, _NAMELESS, _MODE), True
    return os.open(attempt, _FLAGS, _MODE), False


def _name(descriptor: int, attempt: Path) -> None:
    """Give a file without a name one; with a directory's descriptor the link in ``/proc`` is followed."""
    folder = os.open(attempt.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.link(f"{_OWN_FILES}/{descriptor}", attempt.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


@contextmanager
def _closed_after(file: BinaryIO) -> Iterator[BinaryIO]:
    """Close a file that was flushed; after a failure, closing would try to write once more."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def _is_special(path: Path) -> bool:
    """Return whether a path is a device or a FIFO, such as ``/dev/stdout``, which receives bytes."""
    return path.exists() and not path.is_file() and not path.is_dir()


_STANDARD_OUTPUT = "standard output"


@contextmanager
def open_output(
    path: Path | None, evidence_roots: Sequence[Path], *, whole: bool = False, repeatable: bool = False
) -> Iterator[TextIO]:
    """Open the output for text; a file appears when the command has written all of it.

    ``path`` is a file, which is replaced, a device or a FIFO; None is standard output. Names of files need
    not be UTF-8, and decoded text may hold lone surrogates; both are written as escapes. With ``whole``, a
    reader that leaves early (``head``) does not end the command. A file outlives a loss of power; a new one
    that is ``repeatable`` may not: the command can write it again, and does not wait for the disk. Raises
    `RefusedError` if the file lies in the evidence; `EnvironmentFailureError` if it cannot be created.
    """
    if path is None:
        with _standard_output(whole=whole) as stream:
            yield stream
        return
    check_output_files([path], evidence_roots)
    with staged_file(path, sync=not repeatable or path.exists()) as file:
        stream = _OutputStream(file, str(path))
        try:
            yield stream
            stream.flush()
        finally:
            with suppress(BrokenPipeError, EnvironmentFailureError):  # the first failure has been raised
                stream.detach()


class _OutputStream(io.TextIOWrapper):
    """Text as UTF-8 in any locale, whose errors name the ``place`` that could not be written."""

    def __init__(self, buffer: BinaryIO, place: str, *, outlives_reader: bool = False) -> None:
        super().__init__(buffer, encoding="utf-8", errors="backslashreplace", newline="\n")
        self._place = place
        self._outlives_reader = outlives_reader

    def write(self, text: str) -> int:
        """Write; `EnvironmentFailureError` if that fails, `BrokenPipeError` if the reader has gone."""
        with self._writing():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._writing():
            super().flush()

    def write_lines(self, lines: bytes) -> None:
        with self._writing():
            super().flush()
            self.buffer.write(lines)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            if not self._outlives_reader:
                raise
            silence(self)
        except KeyboardInterrupt:
            silence(self)  # a reader that does not read would keep what is pending, and the command, for ever
            raise
        except OSError as failure:
            raise self._named(failure) from failure

    def _named(self, failure: OSError) -> EnvironmentFailureError:
        incomplete = "the output is incomplete, " if self._place == _STANDARD_OUTPUT else ""
        return EnvironmentFailureError(
            f"{self._place}: cannot be written: {failure.strerror}; {incomplete}-o FILE writes elsewhere"
        )


def write_lines(stream: TextIO, lines: bytes) -> None:
    """Write UTF-8 into a stream for text."""
    if isinstance(stream, _OutputStream):
        stream.write_lines(lines)
    else:
        stream.write(lines.decode())


@contextmanager
def _standard_output(*, whole: bool) -> Iterator[TextIO]:
    """Write to standard output; the buffer under ``sys.stdout`` stays open."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        yield sys.stdout
        return
    stream = _OutputStream(buffer, _STANDARD_OUTPUT, outlives_reader=whole)
    try:
        yield stream
        stream.flush()
    finally:
        try:
            stream.detach()
        except (BrokenPipeError, EnvironmentFailureError):  # the caller knows, or ends quietly
            silence(sys.stdout)


def silence(stream: TextIO) -> None:
    """Send what a stream still has to write to nowhere: its reader has gone, or its disk is full."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class BodyFiles:
    """A directory that receives one file for each body, named by the message's physical offset.

    It is created if missing; `RefusedError` if it lies in the evidence.
    """

    def __init__(self, directory: Path, evidence_roots: Iterable[Path]) -> None:
        refuse_evidence(directory, evidence_roots)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise EnvironmentFailureError(f"{directory}: cannot be created: {failure.strerror}") from failure
        self._directory = directory

    def add(self, message: Message | InnerMessage) -> None:
        """Write the body of one message, if it has one.

        A message of an inner batch adds its index to the name. Raises `RefusedError` if the file exists;
        `EnvironmentFailureError` if it cannot be written, with nothing left behind.
        """
        if not message.body:
            return
        number = getattr(message, "index", None)
        index = "" if number is None else f"-{number}"
        path = self._directory / f"{message.physical_offset:020d}{index}.body"
        if path.exists():  # perhaps of another store's record at this offset
            raise RefusedError(f"{path}: exists; give --body-dir a new directory")
        write_whole(path, message.body, sync=False)
