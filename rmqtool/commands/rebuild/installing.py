"""Next steps after a rebuild: how the result gets into its place, or why it does not belong there."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rmqtool.store.results import fetched

if TYPE_CHECKING:
    from rmqtool.commands.rebuild.report import RebuildReport

_INSTALL = (
    "To install: stop the broker and run\n  rmqtool verify {store}\n  {line}\n"
    "The first compares queues and index with the log, which shows damage that a rebuild cannot see. Keep"
    " commitlog/, config/ and checkpoint, and what is moved away. Install all parts of one rebuild and put"
    " nothing else beside them: brokers of 5.0.0 to 5.3.1 do not complete a consume queue that ends before"
    " the log does, 5.3.2 and later lose a record doing so, and 5.4.0 and later read only the newest"
    " commitLogRecoverMaxNum (10) files of the log. Do not delete {names} and let a start rebuild them:"
    " messages before those files would get no unit and no index entry. A start that finds abort deletes"
    " index files that are newer than the checkpoint."
)
_PARTIAL = "This result is partial: a broker must not start on it."
_DAMAGED = (
    "Start no broker on the only copy: a start can cut the log where it is damaged. Compare with a replica"
    " first: rmqtool diff {store} REPLICA. To see what a start would do: rmqtool verify {store} "
    "--predict-recovery. To turn what is left into a new store: rmqtool salvage {store} --out DIR"
)
_FEWER = (
    "Do not install this result: consumers would see fewer messages than now. A replica may have them: "
    "rmqtool diff {store} REPLICA"
)
_DOUBTFUL = (
    "Do not install this result before {names} are sure: pass the broker's own with -c broker.conf or"
    " -p {first}=N, and rebuild again. To see what is known of them: rmqtool info {store}"
)
_HIDES = (
    "Do not install this result yet: the present queues prove messages that the log has lost, and it "
    "leaves them out. Keep a list of them first: rmqtool rebuild {store} --dry-run --lost FILE, and fetch "
    "them from a replica, if one exists; then rebuild with --lost"
)
_NOT_COMPARED = (
    "Do not install this result: the present files could not be compared with it ({reason}), so consumers "
    "may see fewer messages than now"
)
_UNSETTLED = (
    "Do not install this result yet: topics seem to have been deleted and created again, and older messages "
    "hide later ones in it. If they were deleted on purpose, rebuild with --generations live; if their queues"
    " were lost, with --generations all"
)
_DATABASES = (
    "Leave {names} where it is, and do not install this result: the broker keeps queues in that database, and"
    " would make a new one of the newest files of the log alone"
)


def _harm(report: RebuildReport, store: str) -> str:
    """Return what speaks against a result even if it is whole; empty if nothing does."""
    if report.is_log_damaged:
        return _DAMAGED.format(store=store)
    if report.fewer_messages or report.fewer_entries:
        return _FEWER.format(store=store)
    if report.hides_losses:
        return _HIDES.format(store=store)
    if report.unsettled_generations:
        return _UNSETTLED
    if report.databases:
        return _DATABASES.format(names=" and ".join(report.databases))
    return _NOT_COMPARED.format(reason=report.uncompared[0]) if report.uncompared else ""


def install_hint(report: RebuildReport) -> str:
    """Return what to do next: how to put a result in place, or why not; empty if there is nothing."""
    store = shlex.quote(report.store)
    if harm := _harm(report, store):
        return harm
    if report.out is None:
        return ""
    if report.partial:
        return _PARTIAL
    if report.doubtful_settings:
        names = " and ".join(report.doubtful_settings)
        return _DOUBTFUL.format(names=names, first=next(iter(report.doubtful_settings)), store=store)
    made = [name for name in sorted(report.files) if report.files[name]]
    names = " and ".join(f"{name}/" for name in made) or "derived directories"
    hint, out = fetched(report.out)
    return hint + _INSTALL.format(names=names, store=store, line=_line(report.store, out, made))


def _line(path: str, out: str, made: list[str]) -> str:
    """Return the shell line that installs a result; each step waits for the one before."""
    store = shlex.quote(path)
    old = " -o ".join(f"-name {name}" for name in (*made, "abort"))
    new = " ".join(f"{out}/{name}" for name in made)
    away = f"find {store}/ -maxdepth 1 '(' {old} ')' -exec mv -t {store}.before {{}} +"
    return f"mkdir {store}.before && {away} && cp -a {new} {store}/"
