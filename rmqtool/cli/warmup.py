"""``rmqtool warmup``: every kernel is compiled before it is needed, by the commands that need it.

They run on a store of three records, so what is compiled is what is called at work, with the same types.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqtool.cli.help import Command
from rmqtool.errors import EnvironmentFailureError, ExitStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLES = """\
# for this user
rmqtool warmup
# for an image
RMQTOOL_CACHE_DIR=/opt/rmqtool/cache rmqtool warmup
"""
_LOG_BYTES = 4096
_CONF = f"""\
mappedFileSizeCommitLog={_LOG_BYTES}
mappedFileSizeConsumeQueue=200
maxHashSlotNum=5
maxIndexNum=20
"""
_STORED_MS = 1_650_000_000_000
_RUNS = (
    ("rebuild", "sound", "--engine", "local", "--out", "made"),
    ("rebuild", "damaged", "--engine", "local", "--compare"),
    ("report", "sound", "-o", "report.html"),
    ("verify", "damaged", "--predict-recovery"),
    ("dump", "sound/commitlog", "--format", "ndjson"),
    ("topics", "sound"),
    ("query", "sound", "--scan", "--topic", "T", "--key", "k"),
)


@click.command("warmup", cls=Command, examples=_EXAMPLES)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def warmup_command(quiet: bool) -> ExitStatus:
    """Compile all kernels now instead of at the first runs.

    They are kept in RMQTOOL_CACHE_DIR, else XDG_CACHE_HOME, else ~/.cache, for this version on this kind of
    processor.
    """
    from rmqtool.jit import cache_folder

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_stores(folder)
        for number, words in enumerate(_RUNS, 1):
            if not quiet:
                click.echo(f"compiling once, {number} of {len(_RUNS)}: what {words[0]} needs", err=True)
            _run(words, folder)
            if number == 1:
                _install(folder)
    if not quiet:
        click.echo(f"all kernels are in {cache_folder()}, after {time.perf_counter() - started:.2f} s")
    return ExitStatus.CLEAN


def _make_stores(folder: Path) -> None:
    """Write a store that is sound, and one whose second of three records is torn."""
    records: list[bytes] = []
    for number in range(3):
        records.append(_record(sum(map(len, records)), number))
    data, torn = b"".join(records), len(records[0]) + 4
    for name, log in (("sound", data), ("damaged", data[:torn] + b"\xff" + data[torn + 1 :])):
        commitlog = folder / name / "commitlog"
        commitlog.mkdir(parents=True)
        (commitlog / f"{0:020d}").write_bytes(log.ljust(_LOG_BYTES, b"\0"))
    (folder / "broker.conf").write_text(_CONF)


def _install(folder: Path) -> None:
    """Give both stores the queues and the index that the first run made."""
    for name in ("sound", "damaged"):
        for part in ("consumequeue", "index"):
            shutil.copytree(folder / "made" / part, folder / name / part)


def _record(physical_offset: int, queue_offset: int) -> bytes:
    from rmqtool.formats import message

    body, host = b"warm", {"address": bytes(4), "port": 0}
    fields = {
        "magic": message.MAGIC_V1,
        "bodyCrc": zlib.crc32(body) & 0x7FFFFFFF,
        "queueId": 0,
        "flag": 0,
        "queueOffset": queue_offset,
        "physicalOffset": physical_offset,
        "sysFlag": 0,
        "bornTimestamp": _STORED_MS,
        "bornHost": host,
        "storeTimestamp": _STORED_MS,
        "storeHost": host,
        "reconsumeTimes": 0,
        "preparedTransactionOffset": 0,
        "body": body,
        "topic": b"T",
        "properties": b"KEYS\x01k\x02UNIQ_KEY\x01u",
    }
    size = len(message.MESSAGE.build({"totalSize": 0} | fields))
    record: bytes = message.MESSAGE.build({"totalSize": size} | fields)
    return record


def _run(words: Sequence[str], folder: Path) -> None:
    command = [sys.executable, "-m", "rmqtool", *words, "-c", "broker.conf", "--progress", "never"]
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)  # the same sources as here
    done = subprocess.run(
        [*command, "--fail-on", "never"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != ExitStatus.CLEAN:
        raise EnvironmentFailureError(f"{words[0]} failed on a new store: {done.stderr.strip()}")


COMMANDS = {"warmup": warmup_command}
