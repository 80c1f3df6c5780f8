"""Raw bytes of this machine outside of a store: images, blobs, and block devices.

Devices are opened only here, and only if the user named them. FIFOs and character devices stay refused: they
have no positions to read at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.io.local import Descriptor, LocalFiles, open_only
from rmqtool.io.location import Location
from rmqtool.io.source import FileKind

_OPENED = frozenset({FileKind.FILE, FileKind.BLOCK_DEVICE})
_DEVICES = Path("/sys/dev/block")


@dataclass(frozen=True, slots=True)
class LocalImages(LocalFiles):
    """File systems of this machine, with block devices readable, too."""

    def open(self, path: str) -> Descriptor:
        """Open a regular file or a block device, see `rmqtool.io.local.open_only`."""
        return Descriptor(open_only(path, _OPENED))


def image_at(path: str | os.PathLike[str]) -> Location:
    """Return the location of an image, absolute, links kept, which must be a file or a block device."""
    files = LocalImages()
    place = Location(files, files.absolute(os.fspath(path)))
    status = place.status()
    if status is None or status.kind not in _OPENED:
        found = "No such file or directory" if status is None else status.reason or f"is {status.kind}"
        raise EnvironmentFailureError(f"{place}: {found}; give an image, a file or a block device")
    return place


def refuse_same_device(image: Location, out: Path) -> None:
    """Refuse an output on the block device that is carved, as it may overwrite messages (`RefusedError`)."""
    if image.kind() is not FileKind.BLOCK_DEVICE:
        return
    place = next(one for one in (out, *out.absolute().parents) if one.exists())
    if is_part_of(place.stat().st_dev, os.stat(image.text).st_rdev):  # noqa: PTH116 - as in `LocalFiles`
        raise RefusedError(
            f"{out}: lies on {image}, which is carved: the output may overwrite the messages; choose "
            "another device for it"
        )


def is_part_of(device: int, whole: int, devices: Path = _DEVICES) -> bool:
    """Return whether a device is another, a partition of it, or made of it, by their numbers."""
    return device == whole or _real(devices, whole) in _below(_real(devices, device))


def _real(devices: Path, number: int) -> Path:
    return (devices / f"{os.major(number)}:{os.minor(number)}").resolve()


def _below(device: Path) -> set[Path]:
    found = {device}
    if (device / "partition").exists():
        found |= _below(device.parent)
    slaves = device / "slaves"
    for slave in sorted(slaves.iterdir()) if slaves.is_dir() else ():
        found |= _below(slave.resolve())
    return found
