"""What ``import rmqtool`` brings into a process, and what it offers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import rmqtool
from tests.api.signatures import SNAPSHOT, signatures

HEAVY = {"numpy", "numba", "pyspark", "py4j", "pandas", "pyarrow", "click", "rich", "construct"}

_IMPORT = """
import json, os, signal, sys, threading, warnings
def state():
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    handlers = [str(signal.getsignal(number)) for number in numbers]
    process = os.getcwd(), sys.path[:], threading.active_count(), list(warnings.filters)
    return dict(os.environ), handlers, process
before, loaded = state(), set(sys.modules)
import rmqtool
print(json.dumps([before == state(), sorted(set(sys.modules) - loaded)]))
"""

_LOOK = """
import contextlib, io, json, os, signal, sys
import rmqtool
environment, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
said = io.StringIO()
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
    with rmqtool.open(sys.argv[1]) as store:
        store.info(), list(store), store.queues(), list(store.index())
        list(store.query(topic="TopicTest", key="order-140"))
        list(store.query(topic="TopicTest", key="order-140", scan=True))
        store.verify(level=0)
same = environment == dict(os.environ) and handler == signal.getsignal(signal.SIGTERM)
print(json.dumps([said.getvalue(), same, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def _outcome(script: str, *words: object) -> list[object]:
    command = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found: list[object] = json.loads(done.stdout)
    return found


def test_importing_changes_nothing_and_loads_nothing() -> None:
    """50 ms are promised: what is not loaded takes no time on any machine."""
    same, loaded = _outcome(_IMPORT)
    assert same is True
    assert isinstance(loaded, list)
    roots = {name.partition(".")[0] for name in loaded}
    assert roots & HEAVY == set()
    assert [name for name in loaded if name.startswith("rmqtool.")] == []


def test_looking_is_silent_and_light(plain: object) -> None:
    """Look-ups need no compiler and no Java; nothing is printed, no signal caught, no environment changed."""
    said, same, roots = _outcome(_LOOK, plain)
    assert said == ""
    assert same is True
    assert isinstance(roots, list)
    assert set(roots) & (HEAVY - {"construct"}) == set()


def test_every_name_is_there_and_listed() -> None:
    public = vars(rmqtool)["__all__"]
    assert [name for name in public if not hasattr(rmqtool, name)] == []
    assert {*public, "errors", "progress", "spark"} == {*dir(rmqtool)}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(rmqtool, "nonsense")  # noqa: B009 - the checker knows that it is not there


def test_errors_have_one_base() -> None:
    for name in ("UsageError", "EnvironmentFailureError", "RefusedError", "UnansweredError", "EngineError"):
        assert issubclass(getattr(rmqtool, name), rmqtool.RmqtoolError)
    assert rmqtool.errors.RmqtoolError is rmqtool.RmqtoolError
    assert issubclass(rmqtool.VerifyInterruptedError, KeyboardInterrupt)


def test_signatures_are_those_that_were_agreed() -> None:
    """If this fails because the library grew: ``python -m tests.api.signatures``, and say so in the note."""
    assert signatures() == SNAPSHOT.read_text()
