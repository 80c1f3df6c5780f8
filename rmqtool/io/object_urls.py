"""URLs of object stores and HDFS, and the file system of pyarrow that each is asked by.

Credentials and endpoint come from the environment: a URL goes into reports, and must hold no secret.
"""

from __future__ import annotations

import os
import posixpath
import re
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
    made: Callable[[str, str], Connection] = _s3 if scheme == "s3" else _by_url
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


def _by_url(top: str, authority: str) -> Connection:
    from pyarrow.fs import FileSystem

    files, root = FileSystem.from_uri(f"{top}/")
    return files, root.rstrip("/")


def _first_of(names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def one_line(failure: Exception) -> str:
    """Return what an error says, without line ends."""
    return " ".join(str(failure).split())
