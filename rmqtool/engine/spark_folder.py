"""The private folder of a driver: all that it writes, gone with it, or with the next one after a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.store.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "rmqtool-spark-"


class DriverFolder(TemporaryFolder):
    """Make the folder, inside the user's ``spark.local.dir`` if that is given.

    Args:
        conf: Spark's settings.

    Raises:
        EnvironmentFailureError: there is no place for it.
    """

    def __init__(self, conf: Mapping[str, str]) -> None:
        try:
            super().__init__(_PREFIX, conf.get("spark.local.dir", "").split(",")[0] or None)
        except OSError as error:
            raise EnvironmentFailureError(f"Spark has no place for temporary files: {error}") from error
