"""Measure outcomes of actions on damaged stores with real brokers, and compare them with the foretold ones.

    python -m tests.broker.outcome_campaign OUT [--action start|rebuild|repair|salvage|setting]...
        [--cases own|all|none] [--seeds FIRST:LAST] [--mishaps] [--release VERSION]
        [--match TEXT] [--part I/N] [--measure-only]
    python -m tests.broker.outcome_campaign OUT --again [--match TEXT]
    python -m tests.broker.outcome_campaign FOLDER --make LABEL

The first appends a line of JSON for each store and action to OUT, and says how many differ; the second
foretells for all lines of OUT again, without a broker, and prints what differs from what was measured then;
the third makes one damaged store again, by the label of its line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.broker.damaged_states import case_states, own_case_states, random_states, states_by_label
from tests.broker.ways_out import ACTIONS, differences, foretell, judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.broker.damaged_states import State
    from tests.broker.jvm import Version

_AT_ONCE = 40


def _states(options: argparse.Namespace) -> Iterator[State]:
    if options.cases == "own":
        yield from own_case_states()
    elif options.cases == "all":
        yield from case_states(options.release)
    if options.seeds:
        first, last = options.seeds.split(":")
        code = "mishap" if options.mishaps else "random"
        yield from random_states(range(int(first), int(last)), options.release, code)


def _again(out: Path, match: str) -> None:
    lines = [json.loads(text) for text in out.read_text("utf-8").splitlines()]
    by_state: defaultdict[tuple[str, Version], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if match in line["case"]:
            by_state[line["case"], line["release"]].append(line)
    known = states_by_label(label for label, _ in by_state)
    count = differ = 0
    for (label, version), mine in by_state.items():
        with tempfile.TemporaryDirectory(prefix="rmqtool-campaign-") as folder:
            outcomes = foretell(known[label].copy_to(Path(folder) / "state"), version)
        for line in mine:
            for foretold in outcomes:
                if foretold["action"] == line["action"] != "setting":
                    was = None if line["refused"] else line
                    found = differences(foretold, line["refused"] or "", was)
                    count, differ = count + 1, differ + bool(found)
                    if found:
                        print(f"{line['action']:8} {label}: {'; '.join(found)}", flush=True)  # noqa: T201
    print(f"{count} outcomes, {differ} differ")  # noqa: T201


def main(words: list[str]) -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--action", action="append", choices=ACTIONS)
    parser.add_argument("--cases", choices=["own", "all", "none"], default="own")
    parser.add_argument("--seeds")
    parser.add_argument("--mishaps", action="store_true")
    parser.add_argument("--release")
    parser.add_argument("--match", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--make", metavar="LABEL")
    options = parser.parse_args(words)
    if options.make:
        states_by_label([options.make])[options.make].copy_to(options.out)
        return
    if options.again:
        _again(options.out, options.match)
        return
    part, parts = map(int, options.part.split("/"))
    states = [state for state in _states(options) if options.match in state.label][part::parts]
    began, count, differ = time.monotonic(), 0, 0
    with options.out.open("a") as out:
        for version in sorted({state.version for state in states}):
            mine = [state for state in states if state.version == version]
            for first in range(0, len(mine), _AT_ONCE):
                with tempfile.TemporaryDirectory(prefix="rmqtool-campaign-") as folder:
                    chosen, actions = mine[first : first + _AT_ONCE], options.action or ACTIONS
                    for line in judged(
                        chosen, version, Path(folder), actions=actions, foretell=not options.measure_only
                    ):
                        out.write(json.dumps(line.as_json()) + "\n")
                        count, differ = count + 1, differ + bool(line.differences)
                out.flush()
                told = (
                    f"{time.monotonic() - began:6.0f} s {version} {first + len(chosen)} of {len(mine)} states"
                )
                print(f"{told}: {count} outcomes, {differ} differ", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
