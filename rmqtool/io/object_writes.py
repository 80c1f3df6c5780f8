"""Whole objects, written with the patience that they are read with, and never for less than they are.

pyarrow has no way to give an upload up: a stream that is let go of is closed, and that makes an object of
what was sent so far. So an upload that fails is closed and removed. Of a process that is killed amid a large
object the service keeps parts that no listing shows, until a rule of the bucket removes them.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError
from rmqtool.io.object_store import ObjectStore
from rmqtool.io.source import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyarrow.fs import FileSystem

_CHUNK_BYTES = 8 << 20
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_AGAIN = "look after endpoint and network, and run this again"


class WrittenObject(NamedTuple):
    """Size and digest of a written object.

    Attributes:
        size_bytes: Bytes.
        sha256: Of them, in hex.
    """

    size_bytes: int
    sha256: str


class ObjectWriter(ObjectStore):
    """Writes objects of a bucket, container or HDFS."""

    def put(self, path: str, data: Path | bytes) -> WrittenObject:
        """Write an object, in place of what has its name.

        Args:
            path: Its name.
            data: Its bytes, or a file of this machine's that has them.

        Raises:
            DeniedError: It may not be written.
            EnvironmentFailureError: There is no such bucket, or the file cannot be read.
            SourceFailureError: It was tried several times, and is not there as a whole.
        """
        try:
            return self._with_retries(path, "written", lambda: self._put(path, data), _AGAIN)
        except FileNotFoundError as failure:
            raise EnvironmentFailureError(f"{path}: cannot be written: {failure}") from failure

    def sizes_below(self, path: str) -> dict[str, int]:
        """Return the objects below a name, by the rest of their names, with their sizes in bytes.

        Raises:
            DeniedError: They may not be listed.
            SourceFailureError: The store does not answer.
        """
        found = self.listed(path, recursive=True)
        return {name: status.size_bytes for name, status in found.items() if status.kind is Kind.FILE}

    def text(self, path: str) -> bytes:
        """Return the bytes of a small object; none if it is gone.

        Raises:
            DeniedError: It may not be read.
            SourceFailureError: The store does not answer.
        """

        def request() -> bytes:
            with self._connected()[0].open_input_file(self._key(path)) as file:
                return bytes(file.read())

        with suppress(FileNotFoundError):
            return self._with_retries(path, "read", request, _AGAIN)
        return b""

    def remove(self, path: str) -> None:
        """Remove an object, or all below a name; nothing may be there.

        Raises:
            DeniedError: It may not be removed.
            SourceFailureError: The store does not answer.
        """

        def request() -> None:
            files, key = self._connected()[0], self._key(path)
            info = self.status(path)
            if info is not None:
                (files.delete_dir if info.kind is Kind.DIRECTORY else files.delete_file)(key)

        with suppress(FileNotFoundError):
            self._with_retries(path, "removed", request, _AGAIN)

    def _put(self, path: str, data: Path | bytes) -> WrittenObject:
        files, key = self._connected()[0], self._key(path)
        sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
        _make_directory(files, key)
        stream = files.open_output_stream(key)
        try:
            for chunk in _chunks(data):
                stream.write(chunk)
                sha256.update(chunk)
                md5.update(chunk)
                size += len(chunk)
            stream.close()
        except BaseException:
            with suppress(OSError):
                stream.close()
            with suppress(OSError):
                files.delete_file(key)
            raise
        written = WrittenObject(size, sha256.hexdigest())
        self._prove(path, written, md5.hexdigest())
        return written

    def _prove(self, path: str, written: WrittenObject, md5: str) -> None:
        """Hold an object against what was sent: by size, and by its ETag where that is the MD5 of its bytes.

        An ETag that looks like one may be something else, as of encrypted objects: then it is read back.

        Raises:
            OSError: It is another.
        """
        with self._connected()[0].open_input_file(self._key(path)) as file:
            size, facts = file.size(), file.metadata()
            tag = _MD5.fullmatch(facts.get("ETag", b"").decode("utf-8", "replace"))
            differs = size != written.size_bytes
            if not differs and tag is not None and tag[1] != md5:
                differs = hashlib.file_digest(file, "sha256").hexdigest() != written.sha256
        if differs:
            raise OSError(f"another object is there than the {written.size_bytes} bytes that were sent")


def _chunks(data: Path | bytes) -> Iterator[bytes]:
    if isinstance(data, bytes):
        yield data
        return
    with data.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _make_directory(files: FileSystem, key: str) -> None:
    """Make the directory of a file where such are made; an object needs none."""
    if files.type_name in {"hdfs", "local", "abfs"}:
        files.create_dir(key.rpartition("/")[0], recursive=True)
