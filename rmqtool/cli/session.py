"""Session of a command: console, engine, stores and output of one run."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cached_property, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from rmqtool.api.functions import kind_of_part
from rmqtool.api.functions import open as open_store
from rmqtool.cli.group import Command, SharedState
from rmqtool.cli.options import (
    A_TIME,
    STANDARD_OUTPUT,
    Common,
    StorePath,
    adding,
    engine_options,
    shared_options,
)
from rmqtool.errors import EnvironmentFailureError, ExitStatus, RmqtoolError, UsageError
from rmqtool.findings import FailOn, Findings
from rmqtool.io import Location, location_of
from rmqtool.options import declared_options, request_of
from rmqtool.progress import COMPILATION
from rmqtool.projection import json_object
from rmqtool.report.console import Console, ProgressMode
from rmqtool.report.output import (
    RUNNING,
    Format,
    check_output_files,
    open_output,
    refuse_evidence,
    report_json,
    to_json,
)
from rmqtool.store.broker_conf import conf_text
from rmqtool.store.geometry import zone_of_name
from rmqtool.store.kinds import ONLY_SHOWN
from rmqtool.store.lock import lock_holder
from rmqtool.store.root import links_out
from rmqtool.times import is_explicit, parse_time, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from datetime import tzinfo
    from pathlib import Path

    from _typeshed import DataclassInstance

    from rmqtool.account.lost import LostMessage
    from rmqtool.api.store import Store
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.engine import EngineOptions
    from rmqtool.report.text_report import TextReport


_Report = TypeVar("_Report", bound="DataclassInstance")
_Request = TypeVar("_Request", bound="DataclassInstance")
_LINKS_NAMED = 5
_COLORS = {"auto": None, "always": True, "never": False}


def command(
    name: str,
    formats: str,
    examples: str,
    *,
    engine: str | None = None,
    handover: bool = True,
    makes_folder: bool = False,
    kind: type[Command] = Command,
    first: str = "",
) -> Callable[[Callable[..., ExitStatus]], click.Command]:
    """Make a command of a function, which gets its session, and those of its options that it names.

    ``formats`` are those of its data, in one text; the first is the default. ``engine`` is the default of
    ``--engine``; None has no such option. With ``makes_folder`` data goes to a directory of files. See
    `rmqtool.cli.group.Command` for ``examples`` and ``first``, `rmqtool.cli.options.engine_options` for
    ``handover``.
    """
    common = [] if engine is None else [engine_options(engine, handover=handover)]
    common.append(shared_options(*formats.split(), makes_folder=makes_folder))

    def decorate(function: Callable[..., ExitStatus]) -> click.Command:
        names = [*signature(function).parameters][1:]

        @adding(common)
        def run(**options: Any) -> ExitStatus:  # noqa: ANN401 - click's options
            session = Session(options)
            return function(session, **session.options_named(names))

        vars(run)["__click_params__"] += vars(function)["__click_params__"]
        return click.command(name, cls=kind, examples=examples, first=first, help=function.__doc__)(run)

    return decorate


def status_of(findings: Findings, fail_on: FailOn, *, negative: bool, unread: bool = False) -> ExitStatus:
    """Return an exit status: that of findings, or of a negative answer, or of a log that is not read."""
    status = findings.exit_status(fail_on)
    if negative and fail_on is not FailOn.NEVER:
        status = max(status, ExitStatus.NEGATIVE)
    return max(status, ExitStatus.FAILED) if unread else status


class Session:
    """One run of a command, with the arguments and ``options`` of it.

    ``common`` are those that commands share; ``console`` is where everything that is not data goes, and
    ``format`` that of the data; ``fail_on`` are the findings that count for the exit status; ``color`` None
    is found out.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        context = click.get_current_context()
        self.common = common = Common.of(options)
        self._options = options
        self.format = Format(common.format_name)
        self.fail_on = FailOn(common.fail_on)
        self.color = _COLORS[common.color]
        self._state: SharedState = context.find_root().obj
        self.console = self._state.console = Console(
            ProgressMode(common.progress),
            quiet=common.quiet,
            verbose=common.verbose,
            color=self.color,
        )
        COMPILATION.listener = self.console.compiling
        RUNNING.arguments, RUNNING.begin_ms = self._state.words, self._state.begin_ms
        context.call_on_close(partial(setattr, RUNNING, "arguments", None))
        self._read_times(context.command.params)

    def options_named(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of the command's own options that it has; times are epoch milliseconds."""
        return {name: self._options[name] for name in names if name in self._options}

    def given(self, request: type[DataclassInstance]) -> dict[str, Any]:
        """Return the options that a request declares, as keywords of the method of `rmqtool.Store`."""
        return self.options_named(option.name for option in declared_options(request))

    def request(self, kind: type[_Request], **more: object) -> _Request:
        """Return a request with the options that it declares, and ``more`` fields."""
        return request_of(kind, self.given(kind), self.zone, **more)

    @cached_property
    def engine(self) -> EngineOptions:
        """Return the engine; this process, with a remark, if Spark is missing and only the default."""
        from rmqtool.api.arguments import engine_options
        from rmqtool.engine.choice import HOW_TO_GET_SPARK, is_spark_installed

        common = self.common
        name, master = common.engine_name, common.master
        pairs = [text.partition("=") for text in common.spark_conf]
        for setting, separator, _ in pairs:
            if not setting or not separator:
                raise UsageError(f"--spark-conf {setting!r}: expected NAME=VALUE")
        source = click.get_current_context().get_parameter_source("engine_name")
        is_given = source is not ParameterSource.DEFAULT or master is not None or pairs
        if name == "spark" and not is_given and not is_spark_installed():
            name = "local"
            self.console.note(
                f"Spark is not installed ({HOW_TO_GET_SPARK}): this runs as with --engine local"
            )
        return engine_options(
            name,
            jobs=common.jobs,
            master=master,
            spark_conf={setting: value for setting, _, value in pairs},
            log_file=common.log_file,
            scratch=common.scratch,
        )

    @property
    def zone(self) -> tzinfo | None:
        """Return the zone of ``--timezone``; None is this machine's."""
        name = self.common.timezone
        return None if name is None else zone_of_name(name)

    def _read_times(self, parameters: Iterable[click.Parameter]) -> None:
        """Make epoch milliseconds of the times among the options; say how a doubtful one was read."""
        for parameter in parameters:
            name = parameter.name or ""
            text = self._options[name] if parameter.type is A_TIME else None
            if text is not None:
                self._options[name] = time_ms = parse_time(text, self.zone)
                if not is_explicit(text):
                    option = f"--{name.replace('_', '-')}"
                    self.console.note(f"{option} {text} is {time_text(time_ms, self.zone)}")

    def open(
        self,
        path: StorePath,
        kind: str | None = None,
        *,
        narrows_root: bool = False,
        takes_config: bool = False,
        reads_queues: bool = False,
    ) -> Store:
        """Open a store, or a part of it, which is of ``kind`` if the user says so.

        With ``narrows_root``, of a store root that part alone is opened. ``takes_config`` is whether the
        command can do something with a config file, ``reads_queues`` whether it reads all queues, so that
        reading their directories pays.
        """
        part = kind if kind is None or narrows_root else kind_of_part(path, kind)
        store = open_store(path, type=part, **self.common.opening)
        if store.kind in ONLY_SHOWN and not takes_config:
            raise EnvironmentFailureError(f"{path}: {ONLY_SHOWN[store.kind]}")
        self.note_opened(store, reads_queues=reads_queues)
        return store

    def note_opened(self, store: Store, *, reads_queues: bool) -> None:
        """Say what a store is, and which links lead out of it."""
        self.console.detail(f"{store.location}: {store.kind}")
        for sentence in store.files.settings.unknown_names:
            self.console.warn(sentence)
        self._note_links(store, in_topics=reads_queues)

    def _note_links(self, store: Store, *, in_topics: bool) -> None:
        """Say which links lead out of the store: what lies there is read as a part of it."""
        try:
            links = list(links_out(store.files, in_topics=in_topics))
        except EnvironmentFailureError:
            return  # who reads that part says so
        for label, target in links[:_LINKS_NAMED]:
            self.console.note(f"{label} is a link that leads out of the store, to {target}; it is followed")
        if len(links) > _LINKS_NAMED:
            self.console.note(f"{len(links) - _LINKS_NAMED} more links lead out of the store")

    def stream_data(self) -> None:
        """Draw no bar where rows scroll by while the work goes on."""
        self.console.draws_bars = self.common.output is not None or not sys.stdout.isatty()

    def note_state(self, store: Store) -> None:
        """Report a broker at work on the store, and parts that are not read; with ``-v``, show the settings.

        Parts that are not read hold messages, or queues that consumers see.
        """
        self.note_broker(store)
        for feature in store.files.unread:
            self.console.warn(feature.unshown)
        self.note_settings(store)

    def hint_topics(self, store: Store, topics: Iterable[str]) -> None:
        """Say which topics may be meant by those that a store does not have."""
        from rmqtool.lookup.topic_names import missing_topic  # few runs find nothing

        for topic in topics:
            sentence = missing_topic(store.files, topic, self.console)
            if sentence is not None:
                self.console.note(f"hint: {sentence}")

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

    def note_settings(self, store: Store) -> None:
        """Show the settings in effect, with ``-v``; else they are not looked for."""
        if not self.common.verbose and self.common.log_file is None:
            return
        for setting in store.settings.values():
            value = "" if setting.value is None else conf_text(setting.value)
            self.console.detail(f"{setting.name}={value} ({setting.origin.value})")

    def text(self, stream: TextIO, remark: Callable[[], object] | None = None) -> TextReport:
        """Return the writer of a text report, and of remarks before its end."""
        from rmqtool.report.text_report import TextReport  # rows are no report

        return TextReport(stream, color=self.color, remark=remark)

    def write(
        self,
        stream: TextIO,
        text: Callable[[TextReport], object],
        data: Callable[[Format, TextIO], object],
        remark: Callable[[], object] | None = None,
    ) -> None:
        """Write a result: ``text`` for people, ``data`` in a format for programs; then remarks."""
        if self.format is Format.TEXT:
            report = self.text(stream, remark)
            text(report)
            report.finish()
        else:
            data(self.format, stream)
            if remark is not None:
                remark()

    def show(
        self,
        report: _Report,
        status: ExitStatus,
        stream: TextIO,
        write: Callable[[_Report, TextReport], object],
        remark: Callable[[], object] | None = None,
    ) -> None:
        """Write a report in the form of ``--format``, and remarks."""
        self.console.close()
        self.write(
            stream, partial(write, report), lambda _, out: out.write(report_json(report, status)), remark
        )

    def remark(self, sentence: str, *, warns: bool = False) -> Callable[[], None]:
        """Return what says a sentence, unless it is empty: see `TextReport`."""

        def say() -> None:
            if sentence:
                (self.console.warn if warns else self.console.note)(sentence)

        return say

    def lost_file(self, path: Path | None) -> Path | None:
        """Return the file of ``--lost`` if it is one, for a check whether files can be written."""
        if path == STANDARD_OUTPUT and self.common.output is None:
            raise UsageError(
                "--lost - is standard output, where the report goes, too: give -o FILE for the report"
            )
        return None if path == STANDARD_OUTPUT else path

    @contextmanager
    def lost_lines(self, store: Store, lost: Path | None) -> Iterator[Callable[[LostMessage], object] | None]:
        """Yield the writer of lost messages; None without ``--lost``."""
        path = self.lost_file(lost)
        if lost is None:
            yield None
            return
        roots = store.files.evidence_roots
        check_output_files([self.common.output], roots, new=[path])
        with open_output(path, roots) as stream:
            yield lambda message: stream.write(to_json(json_object(message)) + "\n")

    def makes(self, out: StorePath | None, name: str, *, several: bool = False) -> None:
        """Say on an interrupt whether results are complete: each appears so, or not at all."""
        if out is not None:
            self.leaves(partial(_results_state if several else _result_state, out, name))

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
            whole: Whether all is written at the end, and need not be read to its end; else rows come as they
                are found.
            evidence: Its other inputs.
        """
        log_file, path = self.common.log_file, self.common.output
        is_file_written = log_file is not None or path is not None
        roots = [root for store in stores if is_file_written for root in store.files.evidence_roots]
        roots += evidence
        if log_file is not None:
            self._state.log = _open_log(log_file, roots)
            self.console.log_to(self._state.log)
        if not whole:
            self.leaves(partial(rows_state_sentence, path))
        return open_output(path, roots, whole=whole, repeatable=not whole)


def _open_log(path: Path, evidence_roots: Iterable[Path]) -> TextIO:
    refuse_evidence(path, evidence_roots)
    try:
        return path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be opened: {failure.strerror}") from failure


_NOTHING = "nothing was written"


def rows_state_sentence(path: Path | None = None) -> str:
    """Return the state after an interrupt of rows that are written as they are found: nothing in a file."""
    return "the output so far is incomplete" if path is None else _NOTHING


def _result_state(out: StorePath, name: str) -> str:
    return f"the result in {out} is complete" if _is_whole(out, name) else _NOTHING


def _results_state(out: StorePath, name: str) -> str:
    try:
        # of an object store, another look than the one that the run began with
        entries = location_of(out.text if isinstance(out, Location) else out).entries()
    except RmqtoolError:
        return f"--resume keeps the complete results in {out}"
    if any(_is_whole(out / entry.name, name) for entry in entries):
        return f"complete results are in {out}; --resume continues"
    return _NOTHING


def _is_whole(out: StorePath, name: str) -> bool:
    from rmqtool.store.results import read_result  # what only reads needs no staging

    try:
        return read_result(out, name) is not None
    except RmqtoolError:  # something is there, which is not known to be whole
        return False
