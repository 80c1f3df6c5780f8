"""A report file is complete or as it was before; nothing is written into the evidence."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.report.output import check_output_files, open_output, write_whole


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_file_appears_with_its_bytes_and_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "report", b"bytes")
    assert (tmp_path / "report").read_bytes() == b"bytes"
    assert names(tmp_path) == ["report"]


def test_existing_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("of yesterday, and longer")
    path.chmod(0o600)
    check_output_files([path], [])
    write_whole(path, b"bytes")
    assert path.read_bytes() == b"bytes"
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["report"]


def test_existing_file_stays_when_its_successor_fails(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("of yesterday")

    def interrupted() -> None:
        with open_output(path, []) as stream:
            stream.write("half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "of yesterday"
    assert names(tmp_path) == ["report"]


def test_link_stays_and_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "report"
    path.symlink_to(tmp_path / "elsewhere" / "file")
    write_whole(path, b"bytes")
    assert path.is_symlink()
    assert (tmp_path / "elsewhere" / "file").read_bytes() == b"bytes"


def test_link_into_the_evidence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    path = tmp_path / "report"
    path.symlink_to(tmp_path / "store" / "abort")
    with pytest.raises(RefusedError, match="only read"):
        check_output_files([path], [tmp_path / "store"])


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "report")
    with pytest.raises(UsageError, match="two outputs"):
        check_output_files([tmp_path / "report", tmp_path / "link"], [])


def test_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(EnvironmentFailureError, match="No space left"):
        write_whole(tmp_path / "report", b"bytes")
    assert names(tmp_path) == []


def test_evidence_is_only_read(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="only read"):
        check_output_files([tmp_path / "store" / "report"], [tmp_path / "store"])


def test_directory_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="no directory"):
        check_output_files([tmp_path / "nowhere" / "report"], [])


def test_device_is_written_to_directly() -> None:
    check_output_files([Path("/dev/null"), Path("/dev/null")], [])
    write_whole(Path("/dev/null"), b"bytes")
    assert Path("/dev/null").is_char_device()


def test_a_kill_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("of yesterday")

    def killed(path: Path) -> None:
        with open_output(path, []) as stream:
            stream.write("half of it")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("report", "new"):
        child = multiprocessing.get_context("fork").Process(target=killed, args=(tmp_path / name,))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    assert names(tmp_path) == ["report"]
    assert (tmp_path / "report").read_text() == "of yesterday"


def test_a_file_system_without_nameless_files_has_hidden_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqtool.report.output._NAMELESS", os.O_WRONLY)  # what it is where there are none
    with open_output(tmp_path / "report", []) as stream:
        stream.write("bytes")
        (hidden,) = names(tmp_path)
        assert hidden.startswith(".report.")
    assert names(tmp_path) == ["report"]
    assert (tmp_path / "report").read_text() == "bytes"
