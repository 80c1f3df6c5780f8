"""Settings that a recovery follows, as far as a release knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.releases import Release
    from rmqtool.store import Settings

RECOVER_FILES = 10
"""commitLogRecoverMaxNum where it is not set, or not positive (``CommitLog#recoverNormally``, 5.4.0+)."""


@dataclass(frozen=True, slots=True)
class RecoverySwitches:
    """A broker's settings for its recovery.

    Attributes:
        check_crc: ``checkCRCOnRecover``.
        index_safe: ``messageIndexSafe``, which counts where there is an index.
        window: files that are walked back at most (``commitLogRecoverMaxNum``); None without a limit.
        check_offsets: ``checkCommitLogOffsetOnRecover``: a PHYSICALOFFSET outside its file ends the log.
        accelerated: ``enableAcceleratedRecovery``: an unclean start reads from the checkpoint's offset on.
        check_property: ``forceVerifyPropCRC``: the property ``__CRC32#`` is checked in place of the body, and
            a record without one fails.
    """

    check_crc: bool = True
    index_safe: bool = False
    window: int | None = None
    check_offsets: bool = False
    accelerated: bool = False
    check_property: bool = False

    @property
    def check_body(self) -> bool:
        """Whether bodies are checked."""
        return self.check_crc and not self.check_property

    @classmethod
    def from_settings(cls, settings: Settings, release: Release) -> RecoverySwitches:
        """Return the switches of a broker of ``release`` that has a store's settings."""

        def is_on(name: str) -> bool:
            return bool(settings[name].value)

        return cls(
            check_crc=is_on("checkCRCOnRecover"),
            index_safe=is_on("messageIndexEnable") and is_on("messageIndexSafe"),
            window=recover_window(settings, release),
            check_offsets=release.checks_stored_offset and is_on("checkCommitLogOffsetOnRecover"),
            accelerated=release.accelerated_recovery and is_on("enableAcceleratedRecovery"),
            check_property=release.verifies_property
            and is_on("checkCRCOnRecover")
            and is_on("forceVerifyPropCRC"),
        )


def recover_window(settings: Settings, release: Release) -> int | None:
    """Return how many of the log's files a start walks back at most; None without a limit."""
    if not release.recover_window:
        return None
    files = settings["commitLogRecoverMaxNum"].value
    return files if isinstance(files, int) and files > 0 else RECOVER_FILES
