"""An interrupt at any moment of a map in threads ends it: no thread waits for a lock that nobody lets go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_STEP = 23
"""Not every place between two bytecodes is tried, but others of each run of a loop."""

_SCRIPT = f"""
import faulthandler, signal, sys, threading, time
import concurrent.futures.thread
from rmqtool.engine import LocalEngine, MapInterruptedError

PLACES = tuple(sys.modules[name].__file__ for name in (
    "threading", "concurrent.futures._base", "concurrent.futures.thread", "rmqtool.engine"))

def work(number):
    time.sleep(0.01)
    return number

class Interrupter:
    def __init__(self, at):
        self.passed, self.at = 0, at
    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PLACES) and "threads.py" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.passed += 1
            if self.passed == self.at:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self

def interrupted(run, at):
    faulthandler.dump_traceback_later(60, exit=True)
    interrupter = Interrupter(at)
    try:
        sys.settrace(interrupter)
        run()
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, MapInterruptedError):
            assert all(number == value for number, value in interrupt.results.items())
    else:
        assert interrupter.passed < at, at
        return False
    finally:
        sys.settrace(None)
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()  # it ends by itself
    return True

def mapped():
    assert LocalEngine(2).map(work, range(4), lambda _: None) == [0, 1, 2, 3]

def beside():
    with LocalEngine(2).beside(work, range(4)) as results:
        assert results() == [0, 1, 2, 3]

for run in mapped, beside:
    at = 1
    while interrupted(run, at):
        at += {_STEP}
    print(run.__name__, at)
"""


def test_an_interrupt_leaves_no_thread_waiting() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert [int(line.split()[1]) > 1000 for line in done.stdout.splitlines()] == [True, True], done.stdout
