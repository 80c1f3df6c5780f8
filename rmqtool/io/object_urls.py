"""URLs of object stores and HDFS, and the file system of pyarrow that each is asked by.

Credentials and endpoint come from the environment: a URL goes into reports, and must hold no secret.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, SourceFailureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow.fs import FileSystem

    Connection = tuple[FileSystem, str]
    """A file system, and the name there of the URL's bucket, container or root."""

CONNECT_TIMEOUT_S, SILENCE_TIMEOUT_S = 10.0, 10.0
"""For a connection, and for a server that sends nothing."""

SCHEMES = ("s3", "s3a", "gs", "abfss", "hdfs")

_URL = re.compile(rf"(?P<scheme>{'|'.join(SCHEMES)})://(?P<authority>[^/]+)(?P<path>[^\0\ud800-\udfff]*)")
_AZURE_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
_REGION, _ENDPOINT = ("AWS_REGION", "AWS_DEFAULT_REGION"), ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def is_object_url(text: str) -> bool:
    """Tell whether a text is meant as the URL of an object store's, or of HDFS."""
    scheme, stroke, _ = text.partition("://")
    return bool(stroke) and scheme in SCHEMES


def split_url(text: str) -> tuple[str, str]:
    """Return what a URL begins with, scheme and authority, and all of it without ``..`` and the like.

    Nothing in the path is decoded: names of topics have percent signs.

    Raises:
        UsageError: It names no bucket, holds credentials, or has a query.
    """
    match = _URL.fullmatch(text)
    if match is None:
        raise UsageError(f"{text}: give a bucket and a path, as in s3://bucket/store")
    scheme, authority, path = match["scheme"].replace("s3a", "s3"), match["authority"], match["path"]
    user = authority.rpartition("@")[0]
    if ":" in user or (user and scheme == "s3"):
        raise UsageError(
            f"{scheme}://…@{authority.rpartition('@')[2]}{path}: a URL goes into reports and holds no"
            " credentials; give them in the environment: rmqtool help objects"
        )
    if "?" in path or "#" in path:
        raise UsageError(
            f"{text}: a store's URL ends with its path; endpoint and options come from the environment:"
            " rmqtool help objects"
        )
    top = f"{scheme}://{authority}"
    return top, (top + posixpath.normpath(f"/{path.lstrip('/')}")).rstrip("/")


def connect(top: str) -> Connection:
    """Return the file system for what a URL begins with.

    Raises:
        EnvironmentFailureError: pyarrow is not installed, or lacks what serves this scheme.
        SourceFailureError: Nobody tells where the bucket is.
    """
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise EnvironmentFailureError(
            f"{top}: is read by pyarrow, which is not installed: pip install 'rmqtool[arrow]' adds it"
        )
    scheme, _, authority = top.partition("://")
    made: Callable[[str, str], Connection] = {"s3": _s3, "abfss": _azure}.get(scheme, _by_url)
    try:
        return made(top, authority)
    except (
        ImportError,
        NotImplementedError,
        ValueError,
    ) as failure:  # pyarrow's ArrowInvalid is a ValueError
        raise EnvironmentFailureError(f"{top}: pyarrow cannot connect: {one_line(failure)}") from failure
    except OSError as failure:
        raise SourceFailureError(
            top, f"pyarrow cannot connect: {one_line(failure)}; see rmqtool help objects"
        ) from failure


def _s3(top: str, bucket: str) -> Connection:
    """Connect as the AWS tools do; Arrow looks at no variable but those of credentials and region."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    region, endpoint = _first_of(_REGION), _first_of(_ENDPOINT)
    scheme, _, host = (endpoint or "https://").rpartition("://")
    files = S3FileSystem(
        region=region or (None if endpoint else resolve_s3_region(bucket)),
        endpoint_override=host.rstrip("/") or None,
        scheme=scheme or "https",
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1),  # `ObjectStore` asks again
        connect_timeout=CONNECT_TIMEOUT_S,
        request_timeout=SILENCE_TIMEOUT_S,
        allow_delayed_open=True,  # small objects are written in one request
    )
    return files, bucket


def _azure(top: str, authority: str) -> Connection:
    """Connect as Azure's tools do; Arrow looks at no variable but those of identities.

    Raises:
        EnvironmentFailureError: The URL names no container, or the connection string is another account's.
    """
    from pyarrow.fs import AzureFileSystem

    container, _, host = authority.rpartition("@")
    account, _, service = host.partition(".")
    if not container:
        raise EnvironmentFailureError(f"{top}: give abfss://container@account.dfs.core.windows.net/path")
    parts = (part.partition("=") for part in os.environ.get(_AZURE_CONNECTION, "").split(";"))
    told = {name.strip(): value for name, _, value in parts}
    if told.get("AccountName", account) != account:
        raise EnvironmentFailureError(
            f"{top}: {_AZURE_CONNECTION} is of the account {told['AccountName']}, not of {account}"
        )
    cloud = service.partition(".")[2]
    blob = told.get("BlobEndpoint") or f"https://.blob.{cloud}"
    blob_scheme, _, blob_place = blob.partition("://")
    dfs_scheme, _, dfs_place = (told.get("DfsEndpoint") or blob.replace(".blob.", ".dfs.")).partition("://")
    key = told.get("AccountKey") or os.environ.get("AZURE_STORAGE_KEY")
    token = told.get("SharedAccessSignature") or os.environ.get("AZURE_STORAGE_SAS_TOKEN")
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


def _by_url(top: str, authority: str) -> Connection:
    from pyarrow.fs import FileSystem

    files, root = FileSystem.from_uri(f"{top}/")
    return files, root.rstrip("/")


def request_errors() -> tuple[type[Exception], ...]:
    """Return what pyarrow raises when a request fails; it has no OSError for all that its clients tell.

    Before it is loaded, or where it is not installed, no error is its own.
    """
    pyarrow = sys.modules.get("pyarrow")
    return (OSError,) if pyarrow is None else (OSError, pyarrow.ArrowException)


def _first_of(names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def one_line(failure: Exception) -> str:
    """Return what an error says, without line ends."""
    return " ".join(str(failure).split())
