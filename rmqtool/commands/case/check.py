"""Check of a case: whether its records are unaltered, and the files that they name are unchanged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from rmqtool.check.digests import ListedFile, hash_all
from rmqtool.commands.case import Afterwards, BrokenSealError, CaseDirectory, read_record
from rmqtool.errors import EnvironmentFailureError, ExitStatus
from rmqtool.findings import FailOn
from rmqtool.io import FileKind, location_of
from rmqtool.io.location import image_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rmqtool.progress import Progress


class CaseResult(StrEnum):
    """Result of the check of a case."""

    INTACT = "intact"
    FILES_DIFFER = "files-differ"
    ALTERED = "altered"


class FileState(StrEnum):
    """State of a file compared with its record."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One record.

    Attributes:
        number: that of its file.
        sha256: its digest; null if it was altered.
        started: when its run began.
        operator: ``login@host``.
        command: its command line, as words.
        outcome: how its run ended.
        exit_status: the exit status of its run.
        problem: its damage; null without any.
    """

    number: int
    sha256: str | None = None
    started: str | None = None
    operator: str | None = None
    command: tuple[str, ...] = ()
    outcome: str | None = None
    exit_status: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FileLine:
    """A file that differs from the last record that names it.

    Attributes:
        path: where it was.
        state: its state now.
        record: number of that record.
        expected: its digest then.
        observed: its digest now.
        reason: why that is not known.
    """

    path: str
    state: FileState
    record: int
    expected: str | None = None
    observed: str | None = None
    reason: str | None = None


_STATUS = {
    CaseResult.INTACT: ExitStatus.CLEAN,
    CaseResult.FILES_DIFFER: ExitStatus.NEGATIVE,
    CaseResult.ALTERED: ExitStatus.LOG_DAMAGED,
}


@dataclass(frozen=True, slots=True)
class CaseCheck:
    """The outcome.

    Attributes:
        case: path of the directory.
        result: the result of the check.
        records: each of them.
        head: digest of the last record, to be noted elsewhere: the chain cannot show that its end was
            deleted.
        missing: requested digests that are no record's.
        files: how many files are in which state; null unless files were checked.
        differing: the files that are not as they were.
    """

    schema: ClassVar = "rmqtool.case-verify/1"
    case: str
    result: CaseResult
    records: tuple[RecordLine, ...]
    head: str | None
    missing: tuple[str, ...]
    files: Mapping[str, int] | None
    differing: tuple[FileLine, ...]

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 if the case was altered, 1 if files differ, else 0."""
        return ExitStatus.CLEAN if FailOn(fail_on) is FailOn.NEVER else _STATUS[self.result]


def check_case(
    directory: Path,
    progress: Progress,
    *,
    files: bool = False,
    heads: Iterable[str] = (),
    jobs: int | None = None,
) -> CaseCheck:
    """Check a case, with the ``files`` that its records name if wanted.

    Each of ``heads``, digests that were noted elsewhere, must be that of a record.
    """
    places = CaseDirectory(directory).records()
    if not places:
        raise EnvironmentFailureError(f"{directory}: holds no records; give the DIR of --case")
    lines: list[RecordLine] = []
    last: dict[str, FileLine] = {}
    for number, place in places.items():
        try:
            found = read_record(place)
            named = {one.path: one for one in _named(number, found)}
            lines.append(_line(number, found, lines[-1] if lines else None))
            last |= named
        except BrokenSealError as failure:
            lines.append(RecordLine(number, problem=str(failure)))
    known = {one.sha256 for one in lines}
    missing = tuple(head for head in (one.lower() for one in heads) if head not in known)
    states = _files(last, jobs, progress) if files else []
    differing = tuple(one for one in states if one.state is not FileState.UNCHANGED)
    altered = bool(missing) or any(one.problem for one in lines)
    changed = any(one.state in {FileState.CHANGED, FileState.GONE} for one in differing)
    return CaseCheck(
        case=str(directory),
        result=CaseResult.ALTERED if altered else CaseResult.FILES_DIFFER if changed else CaseResult.INTACT,
        records=tuple(lines),
        head=lines[-1].sha256 if lines else None,
        missing=missing,
        files=dict(Counter(one.state.value for one in states)) if files else None,
        differing=differing,
    )


def _named(number: int, document: Mapping[str, Any]) -> Iterator[FileLine]:
    """Yield the files of a record, an output after the input that it was; BrokenSealError if it has none.

    The file's present state is unknown yet.
    """
    try:
        for one in (*document["inputs"], *document["outputs"]):
            then = one["afterwards"]
            problem = one["problem"] if then == Afterwards.SAME else f"it was {then} when the run ended"
            yield FileLine(str(one["path"]), FileState.UNKNOWN, number, one["sha256"], reason=problem)
    except (KeyError, TypeError) as failure:
        raise BrokenSealError(f"is not a record of this tool: {failure}") from failure


def _line(number: int, says: Mapping[str, Any], before: RecordLine | None) -> RecordLine:
    """Return the line of a record, with the fault of its place in the chain; or raise BrokenSealError."""
    try:
        run, who = says["run"], says["run"]["operator"]
        return RecordLine(
            number,
            says["sha256"],
            run["started"],
            f"{who['login']}@{who['host']}",
            tuple(run["command"]),
            says["outcome"],
            says["exitStatus"],
            _problem(number, says["number"], says["previous"], before),
        )
    except (KeyError, TypeError) as failure:
        raise BrokenSealError(f"is not a record of this tool: {failure}") from failure


def _problem(number: int, says: int, names: str | None, before: RecordLine | None) -> str | None:
    expected = 1 if before is None else before.number + 1
    if says != number:
        return f"calls itself record {says}"
    if number != expected:
        return f"record {expected} is missing"
    if before is None and names is not None:
        return f"is the first record, but names {names} as the record before"
    if before is not None and before.sha256 is not None and names != before.sha256:
        return f"names {names} as the digest of the record before, which is {before.sha256}"
    return None


def _files(last: Mapping[str, FileLine], jobs: int | None, progress: Progress) -> list[FileLine]:
    found: list[FileLine] = []
    waiting: list[tuple[ListedFile, FileLine]] = []
    for one in last.values():
        listed = _listed(one.path)
        if one.expected is None or one.reason is not None:
            found.append(one)
        elif listed is None:
            found.append(replace(one, state=FileState.GONE))
        else:
            waiting.append((listed, one))
    digests = hash_all([listed for listed, _ in waiting], jobs, progress, "SHA-256")
    for (_, one), hashed in zip(waiting, digests, strict=True):
        state = FileState.UNCHANGED if hashed.digest == one.expected else FileState.CHANGED
        state = FileState.UNKNOWN if hashed.digest is None else state
        reason = hashed.findings[0].sentence if hashed.findings else None
        found.append(replace(one, state=state, observed=hashed.digest, reason=reason))
    return sorted(found, key=lambda line: line.path)


def _listed(path: str) -> ListedFile | None:
    place = location_of(path)
    status = place.status()
    if status is None or status.kind not in {FileKind.FILE, FileKind.BLOCK_DEVICE}:
        return None
    if status.kind is FileKind.FILE:
        return ListedFile(place, path, status.size_bytes, status.modified_ns)
    device = image_at(path)
    with device.reader() as file:
        return ListedFile(device, path, file.current_size(), status.modified_ns)
