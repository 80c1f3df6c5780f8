"""Actions on damaged stores: each done to a copy, measured with the real store, compared with the model."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import rmqtool
from tests.broker.damaged_states import NotMadeError, topics_decode
from tests.broker.measured import Copy, Measured, Outcome, measured
from tests.salvage.campaign import made_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.broker.damaged_states import State
    from tests.broker.jvm import Version

    Foretold = Mapping[str, Any]
    """One of ``outcomes`` in JSON."""


class WayOutRefusedError(Exception):
    """A command that does not do it."""


def _start(copy: Copy, _version: Version) -> Copy:
    return copy


def _rebuild(copy: Copy, version: Version) -> Copy:
    """Rebuild, and install the result as the command's text says, which also takes ``abort`` away."""
    out = copy.root.parent / "rebuilt"
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        report = store.rebuild(out, engine="local", jobs=1)
    for name in [name for name, files in report.files.items() if files]:
        _remove(copy.root / name)
        (out / name).rename(copy.root / name)
    _remove(copy.root / "abort")
    return copy


def _repair(copy: Copy, version: Version) -> Copy:
    """Repair; where a choice is left to the caller, take the first that is offered."""
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        report = store.repair(jobs=1, plan=True)
    config = {one.file.rpartition("/")[2]: one.choices[0].name for one in report.configs if one.choices}
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        report = store.repair(jobs=1, config=config)
    if report.outcome != "done":
        raise WayOutRefusedError(report.outcome)
    return copy


def _salvage(copy: Copy, version: Version) -> Copy:
    out = copy.root.parent / "salvaged"
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        store.salvage(out, jobs=1)
    return replace(copy, root=out, made=frozenset(made_places(out)))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


_DONE: dict[str, Callable[[Copy, Version], Copy]] = {
    "start": _start,
    "setting": _start,
    "repair": _repair,
    "rebuild": _rebuild,
    "salvage": _salvage,
}
ACTIONS = list(_DONE)
"""From the smallest change to the greatest."""


@dataclass
class Line:
    """One action on one damaged store.

    Attributes:
        state: The store.
        version: Whose store classes are the judge.
        abort: Whether there is one before the action.
        action: As JSON names it.
        foretold: Its outcome as ``verify`` foretells it; None where that does not name the action.
        refused: Why the command does not do it; empty if it does.
        result: What was measured; None if it was not done.
    """

    state: State
    version: Version
    abort: bool
    action: str
    foretold: Foretold | None = None
    refused: str = ""
    result: Measured | None = None

    @property
    def differences(self) -> list[str]:
        """What is foretold otherwise than it is."""
        if self.foretold is None:
            return []
        was = None if self.result is None else self.result.outcome._asdict()
        return differences(self.foretold, self.refused, was)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        line: dict[str, Any] = {
            "case": self.state.label,
            "code": self.state.code,
            "fixture": self.state.fixture,
            "release": self.version,
            "abort": self.abort,
            "properties": list(self.state.properties),
            "action": self.action,
            "refused": self.refused or None,
        }
        if self.result is not None:
            start = self.result.rows[0] if self.result.rows else {}
            line |= {
                **self.result.outcome._asdict(),
                "error": self.result.error,
                "minPhy": start.get("minPhy"),
                "maxPhy": start.get("maxPhy"),
                "lostAt": [one.numbered for one in self.result.lost[:40]],
                "wrongAt": self.result.wrong[:40],
                "unservedAt": self.result.unserved[:40],
                "unindexedAt": self.result.unindexed[:40],
                "light": dict(self.result.light),
            }
        return {**line, "foretold": self.foretold, "differs": self.differences}


def differences(foretold: Foretold, refused: str, was: Mapping[str, Any] | None) -> list[str]:
    """Compare; where a broker does not start, nothing but losses is known.

    Args:
        foretold: The outcome of an action.
        refused: Why its command did not do it.
        was: The outcome that was measured if it did.
    """
    if was is None:
        return [] if foretold["refused"] else [f"foretold, and refused: {refused}"]
    if foretold["refused"]:
        return [f"done, and foretold to be refused: {foretold['refused']}"]
    names = Outcome._fields if was["starts"] and foretold["starts"] else ("starts", "lost")
    return [
        f"{name}: foretold {foretold[name]}, was {was[name]}"
        for name in names
        if name in foretold and foretold[name] != was[name]
    ]


_HARMLESS: Foretold = {
    **dict.fromkeys(("wrong", "unserved", "unindexed", "reused"), 0),
    **{"action": "start", "setting": None, "starts": True, "refused": None},
}


def foretell(copy: Copy, version: Version) -> list[Foretold]:
    """Return ``outcomes`` of ``verify``, the harmless start where it computes none."""
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        outcomes = store.verify(jobs=1).outcomes
    return [json.loads(json.dumps(asdict(one))) for one in outcomes] or [_HARMLESS]


def judged(
    states: Sequence[State],
    version: Version,
    folder: Path,
    *,
    actions: Sequence[str] = ACTIONS,
    foretell: bool = True,
) -> Iterator[Line]:
    """Do each action to a copy of each store, and measure with one release, many in one JVM.

    Args:
        states: Left out is what its store has no place for.
        version: Of the broker.
        folder: Where copies go.
        actions: As JSON names them; a setting only where one is foretold.
        foretell: Whether to compare with what is foretold.
    """
    lines: list[Line] = []
    copies: list[Copy] = []
    for number, state in enumerate(states):
        for line, copy in _done(state, version, folder / str(number), actions, foretell):
            if copy is None:
                yield line
            else:
                lines.append(line)
                copies.append(copy)
    for line, result in zip(lines, measured(copies, version), strict=True):
        line.result = result
        yield line


def _done(
    state: State, version: Version, folder: Path, actions: Sequence[str], is_foretold: bool
) -> Iterator[tuple[Line, Copy | None]]:
    try:
        first = state.copy_to(folder / "first")
    except NotMadeError:
        return
    if not topics_decode(first.root):
        return
    abort = (first.root / "abort").exists()
    outcomes = foretell(first, version) if is_foretold else []
    for action in actions:
        mine = [one for one in outcomes if one["action"] == action]
        if action == "setting" and not mine:
            continue
        for number, foretold in enumerate(mine or [None]):
            line = Line(state, version, abort, action, foretold)
            copy = state.copy_to(folder / f"{action}{number}")
            if foretold is not None and foretold["setting"]:
                with copy.conf.open("a", encoding="utf-8") as conf:
                    conf.write(f"{foretold['setting']}\n")
            try:
                yield line, _DONE[action](copy, version)
            except (rmqtool.RmqtoolError, WayOutRefusedError) as refused:
                line.refused = str(refused) or type(refused).__name__
                yield line, None
