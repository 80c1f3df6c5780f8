"""Compare two checkouts: results of all commands over all fixtures and cases of damage, and public names.

``python -m tests.judges OLD NEW [--quick] [--kind KIND]… [--ignore FIELD]… [--match TEXT] [--work DIR]``

Each side runs with its own package in processes of its own, side by side, on the same copies of the stores.
What they print, return and write is compared file by file: exit statuses, data (JSON, ndjson, csv), bytes,
words for people, and the signatures of `rmqtool`. Every difference is printed; the exit status is 1 if there
is one. The files that differ stay in ``--work``. ``tests.benchmarks.paired`` compares the speed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.judges.differences import KINDS, differences
from tests.judges.jobs import all_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.judges.jobs import Job

_SIDE = Path(__file__).with_name("side.py")
_LINES = 12


def compare(
    checkouts: tuple[Path, Path], jobs: Sequence[Job], work: Path, ignored: Sequence[str] = (), parts: int = 1
) -> Iterator[tuple[str, str, str, list[str]]]:
    """Run jobs on both sides and yield kind, job, file and first lines of each difference.

    Args:
        checkouts: The old one and the new one.
        jobs: What is run.
        work: An empty folder; what is the same goes from it again.
        ignored: Fields of JSON objects that do not count.
        parts: Processes of each side.

    Raises:
        RuntimeError: A side came to no end; the message is the end of what it said.
    """
    (work / "jobs").write_text("".join(json.dumps(asdict(job)) + "\n" for job in jobs))
    sides = [work / "old", work / "new"]  # of one length, so that tables are as wide
    running = [
        _started(checkout, side, work, part, parts)
        for checkout, side in zip(checkouts, sides, strict=True)
        for part in range(parts)
    ]
    try:
        for number, job in enumerate(jobs):
            folders = [side / f"{number:05d}" for side in sides]
            while not all(folder.with_suffix(".done").exists() for folder in folders):
                _check(running)
                time.sleep(0.01)
            found = list(differences(folders[0], folders[1], ignored, _LINES))
            yield from ((kind, f"{number:05d} {job.name}", name, lines) for kind, name, lines in found)
            if not found:
                for folder in folders:
                    shutil.rmtree(folder)
        for one in running:
            one.wait()
        _check(running)
    finally:
        for one in running:
            one.kill()
    names = [(side / "signatures.txt").read_text().splitlines() for side in sides]
    changed = list(difflib.unified_diff(names[0], names[1], "old", "new", lineterm="", n=0))
    if changed:
        yield "names", "public names", "signatures.txt", changed[2:]


def _started(checkout: Path, side: Path, work: Path, part: int, parts: int) -> subprocess.Popen[bytes]:
    side.mkdir(exist_ok=True)
    log = (work / f"{side.name}-{part}.log").open("wb")
    words = [sys.executable, _SIDE, checkout, work / "jobs", side, str(part), str(parts)]
    own = {"PYTHONPATH": str(checkout), "TZ": "UTC", "COLUMNS": "100", "PYTHONSAFEPATH": "1"}
    with log:
        return subprocess.Popen([str(word) for word in words], env=os.environ | own, stderr=log, stdout=log)


def _check(running: Sequence[subprocess.Popen[bytes]]) -> None:
    for one in running:
        if one.poll():
            words = [str(word) for word in one.args] if isinstance(one.args, list) else []
            log = Path(words[4]).parent / f"{Path(words[4]).name}-{words[5]}.log"
            raise RuntimeError(f"{' '.join(words)} ended with {one.returncode}:\n{log.read_text()[-2000:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare what the command line names; return 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.judges", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--quick", action="store_true", help="newest stores, one case of each code")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only such differences; repeatable")
    parser.add_argument("--ignore", action="append", default=[], help="a field of JSON that does not count")
    parser.add_argument("--match", default="", help="only jobs whose name contains this")
    parser.add_argument("--parts", type=int, default=1, help="processes of each side")
    parser.add_argument("--work", type=Path, help="a new folder for the stores and what differs")
    asked = parser.parse_args(arguments)
    work = asked.work or Path(tempfile.mkdtemp(prefix="judges-"))
    work.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    (work / "stores").mkdir()
    jobs = [
        job for job in all_jobs((work / "stores").absolute(), quick=asked.quick) if asked.match in job.name
    ]
    counts: Counter[str] = Counter()
    checkouts = asked.old.resolve(), asked.new.resolve()
    for kind, job, name, lines in compare(checkouts, jobs, work.absolute(), asked.ignore, asked.parts):
        if asked.kind is None or kind in asked.kind:
            counts[kind] += 1
            sys.stdout.write("".join(f"{line}\n" for line in (f"{kind}: {job}: {name}", *lines)))
            sys.stdout.flush()
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"
    seconds = time.monotonic() - begun
    sys.stdout.write(f"{len(jobs)} jobs in {seconds:.0f} s; differences: {told}\n")
    if counts:
        sys.stdout.write(f"what differs is in {work}\n")
    else:
        shutil.rmtree(work)
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main())
