"""Session of a command: console, output and stores of one run, and the sentence about an interrupt."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from rmqtool.api.functions import kind_of_part
from rmqtool.api.functions import open as open_store
from rmqtool.cli.case_record import recording_of
from rmqtool.cli.options import StorePath, state_of
from rmqtool.errors import EnvironmentFailureError, ExitStatus, RmqtoolError
from rmqtool.findings import FailOn
from rmqtool.io import Location, location_of
from rmqtool.progress import COMPILATION
from rmqtool.report.console import Console, ProgressMode
from rmqtool.report.formats import Format, document_of, report_json
from rmqtool.report.output import open_output, refuse_evidence
from rmqtool.report.text_report import TextReport
from rmqtool.store import PathKind
from rmqtool.store.geometry import zone_of_name
from rmqtool.store.lock import lock_holder
from rmqtool.store.root import links_out
from rmqtool.store.segments import tails_text, unfetched
from rmqtool.times import is_explicit, parse_time, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import tzinfo
    from pathlib import Path

    from _typeshed import DataclassInstance

    from rmqtool.api.store import Store
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.store.results import Target


_Report = TypeVar("_Report", bound="DataclassInstance")
_LINKS_NAMED = 5
_OPENING = ("broker_conf", "properties", "broker_version", "timezone")
_COLORS = {"auto": None, "always": True, "never": False}


class Session:
    """The shared options, ready for use.

    Args:
        shared: What `rmqtool.cli.options.shared_options` added to a command.

    Attributes:
        console: Where everything that is not data goes.
        format: How data is written.
        fail_on: Which findings count for the exit status.
        color: Whether colours are used; None is found out.
        reports_tails: Whether the command's report says what was not fetched of objects.
    """

    reports_tails = False

    def __init__(self, shared: dict[str, Any]) -> None:
        self._shared = shared
        self.format = Format(shared["format_name"])
        self.fail_on = FailOn(shared["fail_on"])
        self.color = _COLORS[shared["color"]]
        self._state = state_of(click.get_current_context())
        self.console = self._state.console = Console(
            ProgressMode(shared["progress"]),
            quiet=shared["quiet"],
            verbose=shared["verbose"],
            color=self.color,
        )

        COMPILATION.listener = self.console.compiling
        self._case = recording_of(click.get_current_context(), self._state.words, self.console)

    @property
    def is_verbose(self) -> bool:
        """Whether ``-v`` was given."""
        return bool(self._shared["verbose"])

    @property
    def setting_arguments(self) -> tuple[str, ...]:
        """Return the arguments that gave settings, for commands that need the same."""
        conf, properties = self._shared["broker_conf"], self._shared["properties"]
        words = [] if conf is None else ["-c", str(conf)]
        for text in properties:
            words += ["-p", text]
        return tuple(words)

    @property
    def zone(self) -> tzinfo | None:
        """Return the zone of ``--timezone``; None is this machine's.

        Raises:
            UsageError: There is no such zone.
        """
        name = self._shared["timezone"]
        return None if name is None else zone_of_name(name)

    def moment(self, option: str, text: str | None) -> int | None:
        """Return a time in epoch milliseconds, None for none; say what it was taken for if it can be doubted.

        Raises:
            UsageError: It is no time.
        """
        if text is None:
            return None
        found_ms = parse_time(text, self.zone)
        if not is_explicit(text):
            self.console.note(f"{option} {text} is {time_text(found_ms, self.zone)}")
        return found_ms

    def bounds(self, options: dict[str, Any]) -> dict[str, int | None]:
        """Return ``--begin`` and ``--end`` in epoch milliseconds; see `moment`."""
        return {name: self.moment(f"--{name}", options[name]) for name in ("begin", "end")}

    def open(
        self,
        path: StorePath,
        kind: str | None = None,
        *,
        takes_config: bool = False,
        reads_queues: bool = False,
    ) -> Store:
        """Open a store, or a part of it; of a store root, that part alone.

        Args:
            path: Of the store, or of a part.
            kind: The part.
            takes_config: Whether the command can do something with a config file.
            reads_queues: Whether it reads all queues, so that it is worth a look at their directories.

        Raises:
            EnvironmentFailureError: Nothing of a store is there; or a config file, which few commands take.
            UsageError: The settings make no sense.
        """
        store = open_store(path, type=kind, **self.opening)
        if store.kind == PathKind.CONFIG and not takes_config:
            raise EnvironmentFailureError(
                f"{path}: holds settings of the broker; name the store root here, or use dump to show them"
            )
        self.note_opened(store, reads_queues=reads_queues)
        return store

    @property
    def opening(self) -> dict[str, Any]:
        """Return how every store of this run is opened: the settings, as `rmqtool.open` takes them."""
        return {name: self._shared[name] for name in _OPENING}

    def note_opened(self, store: Store, *, reads_queues: bool) -> None:
        """Say what a store is, which links lead out of it, and in the end what of it was not fetched."""
        self.console.detail(f"{store.location}: {store.kind}")
        for sentence in store.files.settings.unknown_names:
            self.console.warn(sentence)
        click.get_current_context().call_on_close(partial(self._note_tails, store.files.base))
        self._note_links(store, in_topics=reads_queues)

    def _note_tails(self, base: Location) -> None:
        tails = [] if self.reports_tails else unfetched(base)
        if tails:
            self.console.close()
            self.console.note(f"{base}: {tails_text(tails, base)}; RMQTOOL_FETCH_TAILS=1 fetches all")

    def _note_links(self, store: Store, *, in_topics: bool) -> None:
        """Say which links lead out of the store: what lies there is read as a part of it."""
        try:
            found = list(links_out(store.files, in_topics=in_topics))
        except EnvironmentFailureError:
            return  # who reads that part says so
        for label, target in found[:_LINKS_NAMED]:
            self.console.note(f"{label} is a link that leads out of the store, to {target}; it is followed")
        if len(found) > _LINKS_NAMED:
            self.console.note(f"{len(found) - _LINKS_NAMED} more links lead out of the store")

    def open_root(
        self,
        path: StorePath,
        kind: str | None = None,
        *,
        takes_config: bool = False,
        reads_queues: bool = False,
    ) -> Store:
        """Open as `open`; of a store root, ``kind`` is left to the caller to choose."""
        return self.open(path, kind_of_part(path, kind), takes_config=takes_config, reads_queues=reads_queues)

    def stream_data(self) -> None:
        """Draw no bar where rows scroll by while the work goes on."""
        self.console.draws_bars = self._shared.get("output") is not None or not sys.stdout.isatty()

    def note_unread(self, store: Store) -> None:
        """Warn of parts that hold messages, or queues that consumers see, in a form that is not read."""
        for feature in store.files.unread:
            self.console.warn(feature.unshown)

    def note_broker(self, store: Store) -> None:
        """Say when a broker is at work on the store; what is read may change under the reader."""
        root = store.files.root
        if root is None:
            return
        try:
            holder = lock_holder(root)
        except EnvironmentFailureError as failure:
            self.console.warn(str(failure))
            return
        if holder is not None:
            self.console.note(f"{root}: in use by {holder}; its files may change meanwhile")

    def begin_case(self, *stores: Store, images: Iterable[Location] = (), in_place: bool = False) -> None:
        """Begin the record of this run with ``--case``, before anything is read or written.

        Args:
            stores: What the command reads.
            images: What it reads that is no store.
            in_place: Whether it may change the stores.

        Raises:
            RefusedError: The case lies where nothing is written, or is none, or was altered.
            EnvironmentFailureError: It cannot be written.
        """
        if self._case is not None:
            self._state.case = self._case
            self._case.begin([store.files for store in stores], [*images], in_place=in_place)

    def report_to_case(self, document: Callable[[], dict[str, Any]]) -> None:
        """Give the record the result: the document of ``--format json``, made with ``--case`` only."""
        if self._case is not None:
            self._case.report = document()

    def note_settings(self, store: Store) -> None:
        """Show the settings in effect, with ``-v``."""
        for setting in store.settings.values():
            self.console.detail(f"{setting.name}={setting.value} ({setting.origin.value})")

    def text(self, stream: TextIO) -> TextReport:
        """Return the writer of a text report."""
        return TextReport(stream, color=self.color)

    def show(
        self,
        report: _Report,
        status: ExitStatus,
        stream: TextIO,
        write: Callable[[_Report, TextReport], object],
    ) -> None:
        """Write a report in the form of ``--format``, text by ``write``; give it to the record of the run."""
        self.console.close()
        self.report_to_case(partial(document_of, report, status))
        if self.format is Format.JSON:
            stream.write(report_json(report, status))
        else:
            write(report, self.text(stream))

    def leaves(self, left: Callable[[], str]) -> None:
        """Set the function that says what an interrupt leaves from now on."""
        self._state.interruption = left

    def report_interrupt(self, report: FleetReport[Any]) -> None:
        """Say of a run over many stores that it was interrupted, and what that leaves, if it was."""
        if report.exit_status is ExitStatus.INTERRUPTED:
            self.console.error(self._state.interrupted)

    def output(
        self, *stores: Store, whole: bool = False, evidence: Iterable[Path] = ()
    ) -> AbstractContextManager[TextIO]:
        """Open the output and ``--log-file``, which must not lie in one of the stores.

        Args:
            stores: All that the command reads. Nothing is written anywhere before they are known.
            whole: Whether all is written at the end; else rows come as they are found.
            evidence: What it reads besides.

        Raises:
            RefusedError: The log file lies in one of them.
            EnvironmentFailureError: The log file cannot be opened.
        """
        log_file, path = self._shared["log_file"], self._shared.get("output")
        is_file_written = log_file is not None or path is not None
        roots = [root for store in stores if is_file_written for root in store.files.evidence_roots]
        roots += evidence
        if log_file is not None:
            self._state.log = _open_log(log_file, roots)
            self.console.log_to(self._state.log)
        if not whole:
            self.leaves(partial(rows_state_sentence, path))
        return open_output(path, roots)


def _open_log(path: Path, evidence_roots: Iterable[Path]) -> TextIO:
    refuse_evidence(path, evidence_roots)
    try:
        return path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be opened: {failure.strerror}") from failure


_NOTHING = "nothing was written"


def rows_state_sentence(path: Path | None = None) -> str:
    """Return the state after an interrupt of rows that are written as they are found: nothing in a file.

    Args:
        path: Of their file; None is standard output.
    """
    return "the output so far is incomplete" if path is None else _NOTHING


def result_state_sentence(out: Target | None, name: str) -> str:
    """Return the state after an interrupt of a result that appears complete or not at all.

    Args:
        out: Where it appears; None where nothing is written.
        name: Of a file that it has.
    """
    if out is None:
        return ""
    return f"the result in {out} is complete" if _is_whole(out, name) else _NOTHING


def results_state_sentence(out: Target | None, name: str) -> str:
    """Return the state after an interrupt of results of many stores, each of which appears by itself.

    Args:
        out: Receives a directory for each; None where nothing is written.
        name: Of a file that each has.
    """
    if out is None:
        return ""
    try:
        # of an object store, another look than the one that the run began with
        entries = location_of(out.text if isinstance(out, Location) else out).entries()
    except RmqtoolError:
        return f"--resume keeps the complete results in {out}"
    if any(_is_whole(out / entry.name, name) for entry in entries):
        return f"complete results are in {out}; --resume continues"
    return _NOTHING


def _is_whole(out: Target, name: str) -> bool:
    from rmqtool.store.results import read_result  # what only reads needs no staging

    try:
        return read_result(out, name) is not None
    except RmqtoolError:  # something is there, which is not known to be whole
        return False


def command_line(*more: str, **changed: object) -> str:
    """Return the command line of the running command, with further words.

    Args:
        more: Words that are added.
        changed: Parameters that get another value, by name.
    """
    context = click.get_current_context()
    return shlex.join(["rmqtool", context.info_name or "", *_words(context, changed), *more])


def other_command(name: str, *paths: object, more: Sequence[str] = ()) -> str:
    """Return the line of another command on the same store, with the settings that were given."""
    context = click.get_current_context()
    unwanted: dict[str, object] = {
        one.name or "": None for one in context.command.params if one.name not in _OPENING
    }
    return shlex.join(["rmqtool", name, *map(str, paths), *_words(context, unwanted), *more])


def _words(context: click.Context, changed: dict[str, object]) -> Iterator[str]:
    for parameter in sorted(context.command.params, key=lambda one: isinstance(one, click.Option)):
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        value = changed.get(name, context.params.get(name) if is_given else None)
        if value is None:
            continue
        values: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
        for one in values:
            if not isinstance(parameter, click.Option):
                yield str(one)
            elif parameter.is_flag:
                yield parameter.opts[-1]
            else:
                yield parameter.opts[0] if len(parameter.opts) == 1 else max(parameter.opts, key=len)
                yield str(one)
