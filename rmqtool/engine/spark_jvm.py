"""The Java process of the driver: its start, its address, its end.

The process reads a pipe that only we hold open, and exits at its end, so it never outlives us. It leads a
session of its own, so that Ctrl-C in the terminal does not reach it, and so that its Python workers can be
found and ended with it, however deep they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.engine.spark_java import ADVICE
from rmqtool.engine.spark_private import ADDRESS_VARIABLE, GatewayAddress
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.engine.spark_settings import DriverCommand


_TIMEOUT_S, _END_POLL_S = 2, 0.005


def end_processes(leader: int) -> None:
    """Kill all of a session or process group, and wait until they have ended: none may write after this."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (members := list(_living_members(leader))) and time.monotonic() < deadline:
        for pid in members:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        time.sleep(_END_POLL_S)


def _living_members(leader: int) -> Iterator[int]:
    """Yield the processes of a session or group that are not zombies; nothing without ``/proc``.

    There workers end on their own: their daemon reads a pipe from the Java process.
    """
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text(errors="replace")
        except OSError:  # it ended while we looked
            continue
        # The fields after the command's name, which may hold anything: state, parent, group, session.
        state, _, group, session = text.rpartition(")")[2].split()[:4]
        if leader in {int(group), int(session)} and state != "Z":
            yield int(entry.parent.name)


_POLL_S = 0.005
_START_TIMEOUT_S = 180
_LONGEST_QUOTE = 300


class DriverJvm:
    """The driver's Java process; the constructor starts it and does not wait.

    ``folder`` is a private one for the address file; output is appended to ``log_path``. Raises
    `EnvironmentFailureError` if it cannot be started, or the log cannot be written.
    """

    def __init__(self, command: DriverCommand, folder: Path, log_path: Path) -> None:
        self._log_path = log_path
        self._program = command.arguments[0]
        self._address_path = folder / "gateway-address"
        environment = {**command.environment, ADDRESS_VARIABLE: str(self._address_path)}
        try:
            with log_path.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(
                    command.arguments,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            raise EnvironmentFailureError(f"Spark could not be started ({error}): {ADVICE}") from error

    def address(self) -> GatewayAddress:
        """Wait until the process listens, and return its address.

        Spark writes a big-endian int32 port, an int32 length and the secret into a file
        (``PythonGatewayServer``, 4.3). Raises `EnvironmentFailureError` if the process ended, or took
        minutes.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._address_path.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise EnvironmentFailureError(
                    f"Spark did not start with {self._program}{self.complaint()}: {ADVICE}"
                )
            time.sleep(_POLL_S)
        port, length = struct.unpack_from(">ii", content := self._address_path.read_bytes())
        self._address_path.unlink()  # no file may keep the secret, however this process ends
        return GatewayAddress(port, content[8 : 8 + length].decode())

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def output(self) -> str:
        """Return the output of the process so far."""
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def complaint(self) -> str:
        """Quote the first error of the process's output, else its last line, in parentheses; may be empty."""
        lines = [line.strip() for line in self.output().splitlines()]
        lines = [line for line in lines if line and " WARN " not in line]  # Spark always has some
        found = next((line for line in lines if re.search(r"error|exception", line, re.IGNORECASE)), None)
        quote = found or (lines[-1] if lines else "")
        return f" ({quote[:_LONGEST_QUOTE]})" if quote else ""

    def close(self, grace_s: float) -> None:
        """End the process and its workers; ``grace_s`` seconds let a cluster's master be informed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if grace_s:
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # then it is ended by force, like everything else
                self._process.wait(grace_s)
        if self._process.returncode is None:
            self._process.kill()
        end_processes(self._process.pid)
        self._process.wait()
