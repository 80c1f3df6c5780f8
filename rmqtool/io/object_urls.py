"""Connections to object stores and HDFS: the file system of pyarrow for each URL.

Credentials and endpoint come from the environment: a URL goes into reports, and must hold no secret.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from rmqtool.errors import EnvironmentFailureError, SourceUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow.fs import FileSystem

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
    """Return pyarrow's file system for a URL's scheme and authority.

    Raises:
        ConnectionError, TimeoutError: No server answers; another attempt may succeed.
        EnvironmentFailureError: pyarrow is not installed, or cannot serve this scheme.
        SourceUnreachableError: The region of the bucket is unknown.
    """
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise EnvironmentFailureError(
            f"{top}: is read by pyarrow, which is not installed: pip install 'rmqtool[arrow]' adds it"
        )
    scheme, _, authority = top.partition("://")
    made: dict[str, Callable[[str, str], Connection]] = {
        "s3": _s3,
        "gs": _google,
        "abfss": _azure,
        "hdfs": _hdfs,
    }
    try:
        return made[scheme](top, authority)
    except (ConnectionError, TimeoutError):
        raise
    except (
        ImportError,
        NotImplementedError,
        ValueError,
    ) as failure:  # pyarrow's ArrowInvalid is a ValueError
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
