"""All kernels of the pipeline with numba's bounds checks: no index leaves its array, on any fixture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.store.fixture_stores import STORE_ROOTS

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]


def _run(script: str, arguments: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python with numba's checks; kernels that have them lie in a folder of their own."""
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


_ALL_STORES = """
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock
from rmqtool.projection import BodyMode
from rmqtool.columns import ColumnChoice, encoder, lines
from rmqtool.columns.encoder import ColumnJob
from rmqtool.columns.lines import LineJob
from rmqtool.rows.log_splits import log_pieces
from rmqtool.rows.messages import MessageFilter
from rmqtool.reput import dispatcher
from rmqtool.reput.pipeline import run_reput
from rmqtool.progress import NullProgress
from tests.builders import InlineEngine, staging
from tests.reput.test_pipeline import plan_of_store, store_of
from tests.scan.walks import windows

for root in sys.argv[1:]:
    for first, largest, split_bytes, rows in ((1 << 20, 8 << 20, 1 << 28, 1 << 14), (512, 1024, 2500, 1)):
        with staging() as handle, windows(first, largest), mock.patch.object(dispatcher, "_FIRST_ROWS", rows):
            plan = plan_of_store(store_of(Path(root)), handle, split_bytes=split_bytes)
            assert run_reput(plan, InlineEngine(), NullProgress()).messages
            assert any(handle.result.rglob("0*"))
            for body in BodyMode:
                with mock.patch.multiple(lines, OUT_BYTES=rows, ROOM_ROWS=rows, ROOM_BYTES=rows):
                    wanted = MessageFilter(topic="*T*") if body else MessageFilter()
                    store = store_of(Path(root))
                    job = LineJob(store.commitlog, store.settings.delay_levels, wanted, body)
                    assert list(log_pieces(replace(job, split_bytes=split_bytes)))
            with mock.patch.multiple(encoder, BATCH_ROWS=rows, BATCH_BYTES=rows):
                job = ColumnJob(store.commitlog, store.settings.delay_levels, MessageFilter(), ColumnChoice())
                assert list(log_pieces(replace(job, split_bytes=split_bytes)))
print("done")
"""

_OUTSIDE = """
import numpy as np
from rmqtool.kernels.walk import read_i32
from tests.compiled import from_python
from_python(read_i32)(np.zeros(7, np.uint8), 4)
"""


@pytest.mark.soak
def test_no_kernel_leaves_its_arrays() -> None:
    """All stores, in one piece and in tiny windows, splits and output arrays."""
    done = _run(_ALL_STORES, map(str, STORE_ROOTS))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.full
def test_a_kernel_that_leaves_its_array_is_noticed() -> None:
    """The checks are on in such a run, and not taken from the cache of an ordinary one."""
    done = _run(_OUTSIDE)
    assert done.returncode == 1
    assert "IndexError" in done.stderr
