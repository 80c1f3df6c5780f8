"""Steps in a process of their own, which Hadoop's JVM never leaves: JSON in, JSON out.

Each step is a list of a name in `STEPS` and its arguments; what it returns comes out in a list.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from pyarrow.fs import copy_files

from rmqtool.cli import main
from rmqtool.io.object_store import OpenObject, connect
from rmqtool.io.source import split_url
from tests.io.s3_results import whole_result

if TYPE_CHECKING:
    from collections.abc import Callable


def _upload(source: str, url: str) -> None:
    """Copy a folder; by pyarrow alone."""
    top, path = split_url(url)
    files, root = connect(top)
    if files.type_name == "abfs":
        files.create_dir(root)
    copy_files(source, (root + path.removeprefix(top)) or "/", destination_filesystem=files)


def _contents(url: str) -> dict[str, str]:
    """Return the SHA-256 of each file of a result, which is whole; by name."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in whole_result(url).items()}


def _run(*words: str) -> tuple[int, str, str]:
    """Run a command line; return what it left behind."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(list(words))
    return status, out.getvalue(), err.getvalue()


def _changed(url: str, *words: str) -> tuple[int, str, str]:
    """Run a command line, and write a file anew, as long as before, after its first range was read."""
    top, path = split_url(url)
    files, root = connect(top)
    key, is_done = root + path.removeprefix(top), False
    with files.open_input_file(key) as file:
        data = file.read()
    read = OpenObject.read

    def change(self: OpenObject, start: int, stop: int) -> bytearray:
        nonlocal is_done
        found = read(self, start, stop)
        if not is_done and self.version.size_bytes == len(data) and bytes(found) == data[start:stop]:
            is_done = True
            time.sleep(1.1)  # HDFS's own times of change have less than that, pyarrow's have seconds
            with files.open_output_stream(key) as file:
                file.write(data)
        return found

    with patch.object(OpenObject, "read", change):
        return _run(*words)


STEPS: dict[str, Callable[..., object]] = {
    "upload": _upload,
    "contents": _contents,
    "run": _run,
    "changed": _changed,
}

if __name__ == "__main__":
    steps = json.load(sys.stdin)
    answers = []
    # Hadoop's and Azure's clients wait between attempts of their own, so two show that one asks again.
    with patch("rmqtool.io.object_store.PAUSE_S", 0.01), patch("rmqtool.io.object_store.ATTEMPTS", 2):
        answers = [STEPS[name](*arguments) for name, *arguments in steps]
    Path(sys.argv[1]).write_text(json.dumps(answers))
