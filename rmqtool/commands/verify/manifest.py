"""SHA-256 of every file of a store: written down, or compared with earlier ones.

The manifest is that of ``sha256sum``; ``cd STORE && sha256sum -c FILE`` checks it without us.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.check.digests import ListedFile, ManifestLine, hash_all, label_in, parse_line, store_files
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import Finding, FindingCode, FindingLog, codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.check import VerifyRun
    from rmqtool.progress import Progress
    from rmqtool.store import Store


@dataclass
class Manifest:
    """Lines that a store is compared with, or that it gets.

    Attributes:
        path: file of the lines.
        is_new: Whether the lines are to be made.
        lines: lines in the file; None if they are not made yet.
        jobs: processes that hash; None is one for each processor.
    """

    path: Path
    is_new: bool
    lines: list[ManifestLine] | None
    jobs: int | None = None

    def add(self, run: VerifyRun, store: Store, progress: Progress) -> None:
        """Make the lines, or add what differs from them to the findings."""
        with run.stage("manifest"):
            if self.is_new:
                self.lines = make_manifest(store, self.jobs, progress, run.findings)
            elif self.lines is not None:
                run.findings.extend(check_manifest(store, self.path, self.lines, self.jobs, progress))


def make_manifest(
    store: Store, jobs: int | None, progress: Progress, findings: FindingLog
) -> list[ManifestLine]:
    """Return a line for every file that can be read whole."""
    files = store_files(store, findings)
    lines = []
    for file, hashed in zip(files, hash_all(files, jobs, progress), strict=True):
        findings.extend(hashed.findings)
        if hashed.digest is not None:
            lines.append(ManifestLine(os.fsencode(file.label), hashed.digest))
    return lines


def load_manifest(path: Path) -> list[ManifestLine]:
    """Read a manifest; comments and empty lines are skipped."""
    try:
        data = path.read_bytes()
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure.strerror}") from failure
    lines = []
    for number, text in enumerate(data.replace(b"\r\n", b"\n").split(b"\n"), start=1):
        if not text.strip() or text.startswith(b"#"):
            continue
        line = parse_line(text)
        if line is None:
            raise UsageError(f"{path}: line {number} is not a line of sha256sum")
        lines.append(line)
    return lines


def check_manifest(
    store: Store, manifest: Path, lines: Sequence[ManifestLine], jobs: int | None, progress: Progress
) -> list[Finding]:
    """Return the differences from a manifest; for a part of a store, only the lines of that part count."""
    unlisted = FindingLog()
    files = {file.label: file for file in store_files(store, unlisted)}
    wanted = {os.fsdecode(line.name): line.digest for line in lines}
    part = label_in(store.place.path, store.base)
    findings: list[Finding] = list(unlisted)
    present = [file for label, file in files.items() if label in wanted]
    for file, hashed in zip(present, hash_all(present, jobs, progress), strict=True):
        findings += hashed.findings
        if hashed.digest is not None and hashed.digest != wanted[file.label]:
            findings.append(_mismatch(file, wanted[file.label], hashed.digest))
    findings += [
        _place(codes.MF_MISSING, label, "is listed and missing")
        for label in wanted
        if label not in files and (part == "." or Path(label).is_relative_to(part)) and label != "lock"
    ]
    own = manifest.resolve()
    findings += [
        _place(codes.MF_EXTRA, label, "is not listed")
        for label, file in files.items()
        if label not in wanted and file.path.local_path() != own
    ]
    return sorted(findings, key=lambda finding: os.fsencode(finding.file or ""))


def _place(code: FindingCode, label: str, what: str) -> Finding:
    return Finding(code=code, file=label, message=f"{label}: {what} in the manifest")


def _mismatch(file: ListedFile, expected: str, observed: str) -> Finding:
    return Finding(
        code=codes.MF_MISMATCH,
        file=file.label,
        length=file.size_bytes,
        expected=expected,
        observed=observed,
        message=f"{file.label}: SHA-256 differs from the manifest's",
    )
