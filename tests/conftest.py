"""Settings for all tests, and the tiers of the suite.

`pytest` runs what needs neither Maven nor patience, on all cores where no file is named. A test of one of
`TIERS` runs where it is named (``FILE::TEST``), or with ``-m``; `.ci/run` runs them all.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import zlib
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.runs import Run, run_line
from tests.store.fixture_stores import NEWEST, STORES
from tests.strategies import REQUIRED, examples

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

# Kernels compile at their first call, and test machines are shared: how long an example takes says nothing.
_IGNORED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
# The same examples every time, so that a failure is the change's own; others are looked for on purpose.
settings.register_profile(
    "rmqtool",
    examples(100),
    deadline=None,
    derandomize=os.environ.get("RMQTOOL_EXPLORE") != "1",
    suppress_health_check=_IGNORED,
)
settings.load_profile("rmqtool")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for what a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the processes that tests interrupt inherit it

# What one process has compiled of this package serves the many that tests start, whatever the shell says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Scans of the fixtures' logs are kept, and with them their files: more than the 1,024 that shells allow.
_HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (_HARD_LIMIT, _HARD_LIMIT))

TIERS = ("broker", "browser", "full", "matrix", "mutation", "objects", "package", "soak", "spark", "stores")
"""Markers of tests that are not run by default."""

_LONG = ("broker", "browser", "objects", "package", "soak", "spark")
"""Tiers whose files come first: several processes then end together, with the many short tests."""

_MAY_SKIP = {"full", "stores"}

_STORE = re.compile(r"\b([a-z0-9]+)-(4\.9\.8|5\.3\.3|5\.4\.0)\b")
_OLDER = ("4.9.8", "5.3.3", "5.4.0")


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Keep what repairs begin out of the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Run a command line in this process."""
    return partial(run_line, capsys)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Leave the tiers out where no test is named, and share the whole suite out to all cores."""
    option = config.option
    names_tests = any("::" in argument for argument in config.args)
    if not option.markexpr and not names_tests:
        option.markexpr = f"not ({' or '.join(TIERS)})"
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    plain = option.usepdb or option.collectonly
    is_worker = hasattr(config, "workerinput")  # it comes by here, too, and must start no workers of its own
    if whole and not plain and not is_worker and getattr(option, "numprocesses", 0) is None:
        option.numprocesses = len(os.sched_getaffinity(0))
        option.dist = "worksteal" if option.dist == "no" else option.dist


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what lets every test run on every store."""
    parser.addoption(
        "--every-store",
        action="store_true",
        help="the tier stores on all stores, not on one older one of each kind",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to tiers what is tried on many stores, or in many cases, and shown by some of them."""
    if not config.getoption("every_store"):
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            (dropped if _is_as_another(item) else kept).append(item)
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    few: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        test, _, parameters = item.nodeid.partition("[")
        names = _STORE.findall(parameters)
        if names and all((STORES / f"{name}-{NEWEST}").exists() for name, _ in names):
            item.add_marker("stores")
        elif marker := item.get_closest_marker("few"):
            kind = re.match(marker.kwargs.get("each", ""), parameters)
            few.setdefault((test, kind[0] if kind else ""), []).append(item)
    for cases in few.values():
        for item in _beyond_few(cases):
            item.add_marker("full")
    long = {item.path for item in items if any(map(item.get_closest_marker, _LONG))}
    items.sort(key=lambda item: item.path not in long)


def _is_as_another(item: pytest.Item) -> bool:
    """Tell whether a test runs on the same kind of store by the newest broker and by another older one.

    Which older one that is differs from test to test, so that all of them have their share. Where the release
    matters, a test is marked ``every_store``.
    """
    test, _, parameters = item.nodeid.partition("[")
    names = _STORE.findall(parameters)
    if len(names) != 1 or item.get_closest_marker("every_store"):
        return False
    kind, version = names[0]
    older = [one for one in _OLDER if (STORES / f"{kind}-{one}").exists()]
    if version not in older or not (STORES / f"{kind}-{NEWEST}").exists():
        return False
    return str(version) != older[zlib.crc32(f"{test} {kind}".encode()) % len(older)]


def _beyond_few(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of a test but for as many as its mark names, which lie evenly among them."""
    marker = cases[0].get_closest_marker("few")
    count = min(marker.args[0] if marker is not None else 0, len(cases))
    kept = {number * len(cases) // count for number in range(count)}
    return [case for number, case in enumerate(cases) if number not in kept]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skip of a tier's test a failure, where none may be missed."""
    report = yield
    required = os.environ.get(REQUIRED) == "1" and any(
        item.get_closest_marker(tier) for tier in TIERS if tier not in _MAY_SKIP
    )
    if required and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{REQUIRED} is set, but this was skipped: {report.longrepr}"
    return report
