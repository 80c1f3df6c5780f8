"""The releases whose brokers can be the judge, one row each; a new one is a row here, and its fixtures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

Version = Literal["4.9.8", "5.3.3", "5.3.4", "5.4.0", "5.5.0", "5.5.1"]

WANTED = "RMQTOOL_BROKERS"


@dataclass(frozen=True)
class Broker:
    """How a release is built and run.

    Attributes:
        shim: Folder in ``fixtures/make/src`` of what this line spells in its own way.
        gate: Whether every run of the broker tests asks it; the others are asked on demand.
        jars: Version of the jars beside the store's, where its own were never published.
        whole: Version of the broker around store, common and remoting, where its own was never published.
    """

    shim: Literal["4.9", "5"]
    gate: bool = False
    jars: Version | None = None
    whole: str | None = None


BROKERS: dict[Version, Broker] = {
    "4.9.8": Broker("4.9", gate=True, whole="4.9.7"),
    "5.3.3": Broker("5", gate=True),
    "5.3.4": Broker("5", jars="5.4.0"),
    "5.4.0": Broker("5", gate=True),
    "5.5.0": Broker("5"),
    "5.5.1": Broker("5", gate=True),
}


def wanted() -> tuple[Version, ...]:
    """Name the releases to judge by: the gate's, and those that `RMQTOOL_BROKERS` adds (a list, or `all`).

    Raises:
        ValueError: A name that is no release of the table.
    """
    names = os.environ.get(WANTED, "").replace(",", " ").split()
    unknown = [name for name in names if name not in {*BROKERS, "all"}]
    if unknown:
        raise ValueError(f"{WANTED}: {' '.join(unknown)}: known are {' '.join(BROKERS)}, and all")
    return tuple(one for one, row in BROKERS.items() if row.gate or one in names or "all" in names)
