"""Measure outcomes of ways out of damage with real brokers, one line of JSON each.

    python -m tests.broker.outcome_campaign OUT [--action start|rebuild|repair|salvage]...
        [--cases own|all|none] [--seeds FIRST:LAST] [--release VERSION] [--match TEXT]
    python -m tests.broker.outcome_campaign --make LABEL FOLDER

The second makes one damaged store again, by the label of its line.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rmqtool
from tests.broker.damaged_states import (
    NotMadeError,
    State,
    case_states,
    own_case_states,
    random_states,
    state_of,
)
from tests.broker.measured import Copy, Measured, measured
from tests.salvage.campaign import made_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.broker.jvm import Version

_AT_ONCE = 100


class WayOutRefusedError(Exception):
    """A command that does not do it."""


def start(copy: Copy, _version: Version) -> Copy:
    """Leave the store as it is."""
    return copy


def rebuild(copy: Copy, version: Version) -> Copy:
    """Rebuild, and install the result as the command's text says, which also takes ``abort`` away."""
    out = copy.root.parent / "rebuilt"
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        report = store.rebuild(out, engine="local", jobs=1)
    for name in [name for name, files in report.files.items() if files]:
        _remove(copy.root / name)
        (out / name).rename(copy.root / name)
    _remove(copy.root / "abort")
    return copy


def repair(copy: Copy, version: Version) -> Copy:
    """Repair in place."""
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        report = store.repair(jobs=1)
    if report.outcome not in {"done", "nothing"}:
        raise WayOutRefusedError(report.outcome)
    return copy


def salvage(copy: Copy, version: Version) -> Copy:
    """Make a new store."""
    out = copy.root.parent / "salvaged"
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=version) as store:
        store.salvage(out, jobs=1)
    return replace(copy, root=out, made=frozenset(made_places(out)))


ACTIONS: dict[str, Callable[[Copy, Version], Copy]] = {
    "start": start,
    "rebuild": rebuild,
    "repair": repair,
    "salvage": salvage,
}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def lines(states: list[State], action: str, version: Version) -> Iterator[dict[str, Any]]:
    """Do it to stores, measure with one release, and yield a line each; none for what cannot be made."""
    with tempfile.TemporaryDirectory(prefix="rmqtool-campaign-") as folder:
        done: list[tuple[State, Copy, bool]] = []
        for number, state in enumerate(states):
            try:
                copy = state.copy_to(Path(folder) / str(number))
            except NotMadeError:
                continue
            unclean = (copy.root / "abort").exists()
            try:
                done.append((state, ACTIONS[action](copy, version), unclean))
            except (rmqtool.RmqtoolError, WayOutRefusedError) as refused:
                yield _head(state, action, version, unclean) | {"refused": str(refused)}
        results = measured([copy for _, copy, _ in done], version)
        for (state, _, unclean), result in zip(done, results, strict=True):
            yield _head(state, action, version, unclean) | {"refused": None} | _figures(result)


def _head(state: State, action: str, version: Version, unclean: bool) -> dict[str, Any]:
    return {
        "case": state.label,
        "code": state.code,
        "fixture": state.fixture,
        "release": version,
        "abort": unclean,
        "properties": list(state.properties),
        "action": action,
    }


def _figures(result: Measured) -> dict[str, Any]:
    start_row = result.rows[0] if result.rows else {}
    return {
        **result.outcome._asdict(),
        "error": result.error,
        "minPhy": start_row.get("minPhy"),
        "maxPhy": start_row.get("maxPhy"),
        "wrongAt": result.wrong[:40],
        "unservedAt": result.unserved[:40],
        "unindexedAt": result.unindexed[:40],
        "light": dict(result.light),
    }


def _states(options: argparse.Namespace) -> Iterator[State]:
    if options.cases == "own":
        yield from own_case_states()
    elif options.cases == "all":
        yield from case_states(options.release)
    if options.seeds:
        first, last = options.seeds.split(":")
        yield from random_states(range(int(first), int(last)), options.release)


def main(words: list[str]) -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--action", action="append", choices=[*ACTIONS])
    parser.add_argument("--cases", choices=["own", "all", "none"], default="own")
    parser.add_argument("--seeds")
    parser.add_argument("--release")
    parser.add_argument("--match", default="")
    parser.add_argument("--make")
    options = parser.parse_args(words)
    if options.make:
        state_of(options.make).copy_to(options.out)
        return
    states = [state for state in _states(options) if options.match in state.label]
    began = time.monotonic()
    with options.out.open("a") as out:
        for version in sorted({state.version for state in states}):
            mine = [state for state in states if state.version == version]
            for action in options.action or ["start"]:
                for first in range(0, len(mine), _AT_ONCE):
                    for line in lines(mine[first : first + _AT_ONCE], action, version):
                        out.write(json.dumps(line) + "\n")
                    out.flush()
                    seconds = time.monotonic() - began
                    print(f"{seconds:6.0f} s {version} {action} {first}/{len(mine)}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
