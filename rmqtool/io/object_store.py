"""One bucket, container or HDFS, by way of pyarrow: its connection, requests and uploads.

Credentials and endpoint come from the environment: a URL goes into reports, and must hold no secret. Requests
are retried before they fail. pyarrow cannot abort an upload: a dropped stream is closed, and that makes an
object of the bytes sent so far. So an upload that fails is closed and removed. If the process is killed
during a large upload, the service keeps parts that no listing shows, until a rule of the bucket removes them.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
import threading
import weakref
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from rmqtool.errors import DeniedError, EnvironmentFailureError, SourceFailureError, SourceUnreachableError
from rmqtool.io.object_pieces import pause
from rmqtool.io.source import FileKind, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyarrow.fs import FileInfo, FileSystem

    Connection = tuple[FileSystem, str]
    """A file system, and the name there of the URL's bucket, container or root."""


CONNECT_TIMEOUT_S, SILENCE_TIMEOUT_S = 10.0, 10.0
"""For a connection, and for a server that sends nothing."""

_HDFS_PATIENCE = {
    "ipc.client.connect.timeout": int(CONNECT_TIMEOUT_S * 1000),
    "ipc.client.connect.max.retries.on.timeouts": 0,
    "ipc.client.rpc-timeout.ms": int(SILENCE_TIMEOUT_S * 1000),
    "dfs.client.socket-timeout": int(SILENCE_TIMEOUT_S * 1000),
}
"""Settings of Hadoop's client, in milliseconds; by default it waits for minutes, and tries 45 times."""

_NO_SIGNALS = " -Xrs"
"""For Hadoop's JVM: Python handles Ctrl-C."""

_AZURE_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
_EMULATOR = ("CLOUD_STORAGE_EMULATOR_ENDPOINT", "STORAGE_EMULATOR_HOST")
_REGION, _ENDPOINT = ("AWS_REGION", "AWS_DEFAULT_REGION"), ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")

LENT = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", *_REGION, *_ENDPOINT),
    *(_AZURE_CONNECTION, "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"),
)
"""Variables that executors of a cluster get from the command's environment: none names a file."""


def connect(top: str) -> Connection:
    """Return pyarrow's file system for a URL's scheme and authority."""
    if find_spec("pyarrow") is None:
        raise EnvironmentFailureError(
            f"{top}: is read by pyarrow, which is not installed: pip install 'rmqtool[arrow]' adds it"
        )
    scheme, _, authority = top.partition("://")
    made = {"s3": _s3, "gs": _google, "abfss": _azure, "hdfs": _hdfs}
    try:
        return made[scheme](top, authority)
    except (ConnectionError, TimeoutError):
        raise
    except (ImportError, NotImplementedError, ValueError) as failure:  # ArrowInvalid is a ValueError
        raise EnvironmentFailureError(f"{top}: pyarrow cannot connect: {one_line(failure)}") from failure
    except OSError as failure:
        cause = f"pyarrow cannot connect: {one_line(failure)}"
        raise SourceUnreachableError(top, f"{cause}; see rmqtool help objects", cause) from failure


def _s3(top: str, bucket: str) -> Connection:
    """Connect as the AWS tools do; Arrow reads no variables but those of credentials and region."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    region, endpoint = _first_of(_REGION), _first_of(_ENDPOINT)
    scheme, _, host = (endpoint or "https://").rpartition("://")
    files = S3FileSystem(
        region=region or (None if endpoint else resolve_s3_region(bucket)),
        endpoint_override=host.rstrip("/") or None,
        scheme=scheme or "https",
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1),  # `ObjectStore` retries
        connect_timeout=CONNECT_TIMEOUT_S,
        request_timeout=SILENCE_TIMEOUT_S,
        allow_delayed_open=True,  # small objects are written in one request
    )
    return files, bucket


def _azure(top: str, authority: str) -> Connection:
    """Connect as Azure's tools do; Arrow reads no variables but those of identities."""
    from pyarrow.fs import AzureFileSystem

    container, _, host = authority.rpartition("@")
    account, _, service = host.partition(".")
    parts = (part.partition("=") for part in os.environ.get(_AZURE_CONNECTION, "").split(";"))
    values = {name.strip(): value for name, _, value in parts}
    if values.get("AccountName", account) != account:
        raise EnvironmentFailureError(
            f"{top}: {_AZURE_CONNECTION} is of the account {values['AccountName']}, not of {account}"
        )
    cloud = service.partition(".")[2]
    blob = values.get("BlobEndpoint") or f"https://.blob.{cloud}"
    blob_scheme, _, blob_place = blob.partition("://")
    dfs_scheme, _, dfs_place = (values.get("DfsEndpoint") or blob.replace(".blob.", ".dfs.")).partition("://")
    key = values.get("AccountKey") or os.environ.get("AZURE_STORAGE_KEY")
    token = values.get("SharedAccessSignature") or os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    files = AzureFileSystem(
        account,
        account_key=key,
        sas_token=None if key else token,
        blob_storage_authority=blob_place.partition("/")[0],
        blob_storage_scheme=blob_scheme,
        dfs_storage_authority=dfs_place.partition("/")[0],
        dfs_storage_scheme=dfs_scheme,
    )
    return files, container


def _google(_: str, authority: str) -> Connection:
    """Connect as Google's tools do: to an emulator without credentials, if the environment names one."""
    from datetime import timedelta

    from pyarrow.fs import GcsFileSystem

    user, _, bucket = authority.rpartition("@")
    emulator = _first_of(_EMULATOR)
    scheme, _, host = (emulator or "https://").rpartition("://")
    files = GcsFileSystem(
        anonymous=emulator is not None or user == "anonymous",
        endpoint_override=host.rstrip("/") or None,
        scheme=scheme or "http",
        retry_time_limit=timedelta(seconds=1),  # `ObjectStore` retries; by default it would be 15 minutes
    )
    return files, bucket


def _hdfs(top: str, _: str) -> Connection:
    """Connect by Hadoop's client, in a JVM within this process; `OSError` if the NameNode does not listen."""
    from pyarrow.fs import FileSystem

    if not os.environ.get("CLASSPATH"):
        raise EnvironmentFailureError(
            f"{top}: CLASSPATH names no jars of Hadoop's: export CLASSPATH=$(hadoop classpath --glob)"
        )
    name_node = urlsplit(top)
    if name_node.port:  # Hadoop's client reports it on standard error, by a stack trace for each attempt
        socket.create_connection((name_node.hostname, name_node.port), CONNECT_TIMEOUT_S).close()
    given = os.environ.get("LIBHDFS_OPTS", "")
    os.environ["LIBHDFS_OPTS"] = f"{given.removesuffix(_NO_SIGNALS)}{_NO_SIGNALS}"
    try:
        files, root = FileSystem.from_uri(f"{top}/?{urlencode(_HDFS_PATIENCE)}")
    except OSError as failure:
        missing = re.match(r"Unable to load (\w+)", str(failure))
        if missing is None:
            raise
        raise EnvironmentFailureError(
            f"{top}: pyarrow finds no {missing[1]}; JAVA_HOME and HADOOP_HOME, or ARROW_LIBHDFS_DIR, name "
            "its folders: rmqtool help objects"
        ) from failure
    return files, root.rstrip("/")


def request_errors() -> tuple[type[Exception], ...]:
    """Return the errors that pyarrow raises when a request fails.

    Many of its clients' failures are not `OSError`. Before it is loaded, or where it is not installed, none
    is its own.
    """
    pyarrow = sys.modules.get("pyarrow")
    return (OSError,) if pyarrow is None else (OSError, pyarrow.ArrowException)


def _first_of(names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def one_line(failure: Exception) -> str:
    """Return an error's message without line ends, and without the place in Google's client."""
    return " ".join(str(failure).split()).partition(" error_info={")[0]


T = TypeVar("T")

ATTEMPTS = 4
PAUSE_S = 0.25
"""Before the second attempt; four times as long before each further one."""

_DENIED = re.compile(
    r"ACCESS_?DENIED|PERMISSION_DENIED|Permission ?denied|AuthorizationFailure|HTTP status 40[13]"
    r"|AuthenticationException",
    re.I,
)
_MODIFIED = "Last-Modified"
_WITHOUT_DIRECTORIES = "gcs"
"""Lists no directories that only names imply, unless it lists all below (Arrow 26.0.1)."""

_HDFS = "hdfs"
"""Arrow (26.0.1) reports missing files if no server answers."""

_UNWRITTEN = 0xA5
"""The last byte of a buffer until one of the object takes its place: rare in stores, unlike zero."""

_CREDENTIALS = "give credentials that may, in the environment: rmqtool help objects"
_AGAIN = "no verdict on the store: check endpoint and network, and run this again"


class Version(NamedTuple):
    """Version of an object.

    ``facts`` of the service, by name, are ETag, version, time of change and the like.
    """

    size_bytes: int
    facts: tuple[tuple[str, str], ...]

    def modified_s(self) -> int | None:
        """Return when it was changed last, seconds since 1970; None if the service does not say."""
        try:
            return int(datetime.fromisoformat(dict(self.facts)[_MODIFIED]).timestamp())
        except (KeyError, ValueError):
            return None

    def difference(self, later: Version) -> str:
        """Return the differences of a later version from this one; empty if there are none."""
        before, now = ({"size": str(version.size_bytes), **dict(version.facts)} for version in (self, later))
        names = (name for name in before | now if before.get(name) != now.get(name))
        return ", ".join(f"{name} was {before.get(name)}, is {now.get(name)}" for name in names)


class OpenObject:
    """A pyarrow file of an object as it was when opened; one thread at a time reads it."""

    def __init__(self, file: Any, version: Version) -> None:  # noqa: ANN401 - pyarrow has no types
        self._file = file
        self.version = version
        weakref.finalize(self, file.close)  # at exit, too: Hadoop's client ends before its open files

    def read(self, start: int, stop: int) -> bytearray:
        """Return a range, which is not empty.

        Arrow's S3 client (26.0.1) counts the bytes that were requested, not those that came: after a short
        body the buffer ends in its old content. Its last byte shows that. Where it may be the object's own,
        it is read once more, into a buffer that began otherwise. Raises `OSError` if it failed, or fewer
        bytes came.
        """
        data = bytearray(stop - start)
        data[-1] = _UNWRITTEN
        count = self._fill(start, data)
        if data[-1] == _UNWRITTEN:
            last = bytearray([_UNWRITTEN ^ 0xFF])
            count = min(count, len(data) - 1 + self._fill(stop - 1, last) * (last[0] == _UNWRITTEN))
        if count != len(data):
            raise OSError(f"fewer bytes came than the {len(data)} from position {start} on")
        return data

    def _fill(self, start: int, data: bytearray) -> int:
        self._file.seek(start)
        return int(self._file.readinto(data))


class ObjectStore:
    """Store of a scheme and an authority, as ``s3://bucket``; connected at the first request.

    Every method tries up to `ATTEMPTS` times, and may raise `DeniedError` and `SourceFailureError`.
    """

    def __init__(self, top: str) -> None:
        self._top = top
        self._connection: Connection | None = None
        self._connecting = threading.Lock()
        self._has_answered = False

    def status(self, path: str) -> Status | None:
        """Return the status of a name; None if it does not exist."""
        return self._with_retries(path, "examined", lambda: _status(self._info(path)))

    def listed(self, path: str, *, recursive: bool) -> dict[str, Status]:
        """Return the entries of a directory, with everything below on request, by the names below it.

        Directories that only names of objects imply may be missing.
        """

        def request() -> dict[str, Status]:
            files, key = self._connected()[0], self._key(path)
            whole = recursive or files.type_name == _WITHOUT_DIRECTORIES
            infos = self._infos(path, recursive=whole)
            pairs = ((info.path.removeprefix(key).strip("/"), _status(info)) for info in infos)
            entries = {name: status for name, status in pairs if name and status is not None}
            return entries if whole == recursive else _first_level(entries)

        return self._with_retries(path, "listed", request)

    def open(self, path: str) -> OpenObject:
        """Open an object: its version is fetched, no byte of it. `FileNotFoundError` if there is none."""

        def request() -> OpenObject:
            file = self._connected()[0].open_input_file(self._key(path))
            facts = {name: value.decode("utf-8", "replace") for name, value in file.metadata().items()}
            if not facts:  # of HDFS
                facts[_MODIFIED] = self._info(path).mtime.isoformat()
            return OpenObject(file, Version(file.size(), tuple(sorted(facts.items()))))

        return self._with_retries(path, "opened", request)

    def read(self, path: str, read: Callable[[], T]) -> T:
        """Return what a function reads from an object, called again if it fails."""
        return self._with_retries(path, "read", read)

    def _with_retries(self, path: str, done: str, request: Callable[[], T], again: str = _AGAIN) -> T:
        seconds = PAUSE_S
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = request()
            except FileNotFoundError:
                self._has_answered = True
                raise
            except request_errors() as failure:
                reason = one_line(failure)
                if _DENIED.search(reason):
                    raise DeniedError(path, f"cannot be {done}: {reason}; {_CREDENTIALS}") from failure
                if attempt == ATTEMPTS or not pause(seconds):
                    cause = f"cannot be {done}, tried {attempt} times: {reason}"
                    if self._has_answered:
                        raise SourceFailureError(path, f"{cause}; {again}") from failure
                    raise SourceUnreachableError(path, f"{cause}; {again}", f"{path} {cause}") from failure
            else:
                self._has_answered = True
                return answer
            seconds *= 4
        raise AssertionError("the last attempt returns or raises")

    def _info(self, path: str) -> FileInfo:
        from pyarrow.fs import FileSelector, FileType

        files, key = self._connected()[0], self._key(path)
        info = files.get_file_info(key)
        if info.type == FileType.NotFound and files.type_name == _HDFS:
            with suppress(FileNotFoundError):  # which only HDFS itself raises for a missing name
                files.get_file_info(FileSelector(key))
                raise OSError("HDFS did not answer")
        return info

    def _infos(self, path: str, *, recursive: bool) -> list[FileInfo]:
        from pyarrow.fs import FileSelector, FileType

        files, key = self._connected()[0], self._key(path)
        reports_missing = files.type_name != _HDFS
        if not reports_missing and self._info(path).type == FileType.NotFound:
            return []
        try:
            selector = FileSelector(key, allow_not_found=reports_missing, recursive=recursive)
            return list(files.get_file_info(selector))
        except FileNotFoundError as failure:
            raise OSError(f"a directory disappeared: {one_line(failure)}") from failure

    def _key(self, path: str) -> str:
        return (self._connected()[1] + path[len(self._top) :]) or "/"

    def _connected(self) -> Connection:
        with self._connecting:
            if self._connection is None:
                self._connection = connect(self._top)
            return self._connection


def _first_level(entries: dict[str, Status]) -> dict[str, Status]:
    directories = {name.partition("/")[0]: Status(FileKind.DIRECTORY) for name in entries if "/" in name}
    return {name: status for name, status in entries.items() if "/" not in name} | directories


def _status(info: FileInfo) -> Status | None:
    from pyarrow.fs import FileType

    kinds = {FileType.File: FileKind.FILE, FileType.Directory: FileKind.DIRECTORY}
    if info.type == FileType.NotFound:
        return None
    kind = kinds.get(info.type, FileKind.OTHER)
    return Status(kind, info.size or 0, info.mtime_ns or 0) if kind is FileKind.FILE else Status(kind)


_CHUNK_BYTES = 8 << 20
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_RUN_AGAIN = "check endpoint and network, and run this again"


class WrittenObject(NamedTuple):
    """Size and digest of a written object, the digest in hex."""

    size_bytes: int
    sha256: str


class ObjectWriter(ObjectStore):
    """Writer of the objects of a bucket, container or HDFS."""

    def put(self, path: str, data: Path | bytes) -> WrittenObject:
        """Write bytes, or those of a local file, as an object that replaces one of its name.

        Raises `EnvironmentFailureError` if there is no such bucket, or the file cannot be read;
        `SourceFailureError` if the object is not complete after several attempts.
        """
        try:
            return self._with_retries(path, "written", lambda: self._put(path, data), _RUN_AGAIN)
        except FileNotFoundError as failure:
            raise EnvironmentFailureError(f"{path}: cannot be written: {failure}") from failure

    def sizes_below(self, path: str) -> dict[str, int]:
        """Return the objects below a name, by the rest of their names, with their sizes in bytes."""
        entries = self.listed(path, recursive=True)
        return {name: status.size_bytes for name, status in entries.items() if status.kind is FileKind.FILE}

    def text(self, path: str) -> bytes:
        """Return the bytes of a small object; none if it does not exist."""

        def request() -> bytes:
            with self._connected()[0].open_input_file(self._key(path)) as file:
                return bytes(file.read())

        with suppress(FileNotFoundError):
            return self._with_retries(path, "read", request, _RUN_AGAIN)
        return b""

    def remove(self, path: str) -> None:
        """Remove an object, or everything below a name, if it exists."""

        def request() -> None:
            files, key = self._connected()[0], self._key(path)
            info = self.status(path)
            if info is not None:
                with _no_new_marker(files, key):
                    (files.delete_dir if info.kind is FileKind.DIRECTORY else files.delete_file)(key)

        with suppress(FileNotFoundError):
            self._with_retries(path, "removed", request, _RUN_AGAIN)

    def _put(self, path: str, data: Path | bytes) -> WrittenObject:
        files, key = self._connected()[0], self._key(path)
        sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
        if files.type_name in {"hdfs", "local", "abfs"}:
            files.create_dir(key.rpartition("/")[0], recursive=True)
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
            with suppress(OSError), _no_new_marker(files, key):
                files.delete_file(key)
            raise
        written = WrittenObject(size, sha256.hexdigest())
        self._prove(path, written, md5.hexdigest())
        return written

    def _prove(self, path: str, written: WrittenObject, md5: str) -> None:
        """Compare an object with what was sent: by size, and by its ETag where that is the MD5 of its bytes.

        An ETag that looks like one may be something else, as of encrypted objects: then the object is read
        back. Raises `OSError` if it differs.
        """
        with self._connected()[0].open_input_file(self._key(path)) as file:
            size, facts = file.size(), file.metadata()
            tag = _MD5.fullmatch(facts.get("ETag", b"").decode("utf-8", "replace"))
            differs = size != written.size_bytes
            if not differs and tag is not None and tag[1] != md5:
                differs = hashlib.file_digest(file, "sha256").hexdigest() != written.sha256
        if differs:
            raise OSError(f"the object is not the {written.size_bytes} bytes that were sent")


@contextmanager
def _no_new_marker(files: FileSystem, key: str) -> Iterator[None]:
    """Remove the empty object of the folder above, which Arrow writes when it deletes on S3 (issue 36275)."""
    bucket, _, folder = key.rpartition("/")[0].partition("/")
    if files.type_name != "s3" or not folder or find_spec("boto3") is None:
        yield
        return
    from boto3 import client
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    patience = Config(connect_timeout=CONNECT_TIMEOUT_S, read_timeout=SILENCE_TIMEOUT_S)
    requests = client("s3", region_name=files.region, endpoint_url=_first_of(_ENDPOINT), config=patience)
    marker = {"Bucket": bucket, "Key": f"{folder}/"}
    try:
        first = requests.list_objects_v2(Bucket=bucket, Prefix=marker["Key"], MaxKeys=1)
        yield
        if not any(version["Key"] == marker["Key"] for version in first.get("Contents", ())):
            requests.delete_object(**marker)
    except (BotoCoreError, ClientError) as failure:
        raise OSError(str(failure)) from failure


def _chunks(data: Path | bytes) -> Iterator[bytes]:
    if isinstance(data, bytes):
        yield data
        return
    with data.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
