"""Is there a master, before anything is started that would wait for it for more than a minute."""

from __future__ import annotations

import re
import socket
from importlib.metadata import version
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONNECT_TIMEOUT_S = 5.0
_STANDALONE = re.compile(r"spark://(.+)")
_ADDRESS = re.compile(r"\[?([^\]]+?)\]?:(\d+)")
_CONNECT = re.compile(r"sc://([^/;]+)")
_CONNECT_PORT = 15002
"""Where its URL names none."""
_WITHOUT = "--engine local does without a cluster"

_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_IMAGES = ("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image")


def check_master(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Check what can be known of a cluster before its driver starts.

    Args:
        master: Spark's master URL, of another machine than this.
        conf: Spark's settings.
        environment: the variables that the driver gets.

    Raises:
        EnvironmentFailureError: nobody answers there, or what such a cluster needs is not given.
    """
    if standalone := _STANDALONE.fullmatch(master):
        _check_addresses("Spark master", master, standalone[1].split(","))
    elif server := _CONNECT.match(master):
        address = server[1] if _ADDRESS.fullmatch(server[1]) else f"{server[1]}:{_CONNECT_PORT}"
        _check_addresses("server of Spark Connect", master, [address])
    elif master == "yarn" and not any(environment.get(name) for name in _HADOOP):
        raise EnvironmentFailureError(
            "--master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: the directory with the cluster's"
            f" yarn-site.xml and core-site.xml; {_WITHOUT}"
        )
    elif master.startswith("k8s://") and not any(conf.get(name) for name in _IMAGES):
        raise EnvironmentFailureError(
            f"--master {master} needs --spark-conf {_IMAGES[0]}=IMAGE: an image of this Spark line with this"
            f" Python and rmqtool, into which the store is mounted; {_WITHOUT}"
        )


def another_line(master: str) -> str:
    """Say what a master may be that takes connections and does not register an application."""
    return (
        f"{master} takes connections, but does not register this application: it may be of another line of"
        f" Spark than the {version('pyspark')} here (its web page tells), or no master; {_WITHOUT}"
    )


def _check_addresses(kind: str, master: str, addresses: list[str]) -> None:
    """Raise unless one of them takes a connection; what is no address is left to Spark to refuse."""
    failures = []
    for address in addresses:
        found = _ADDRESS.fullmatch(address)
        if found is None or (failure := _failure(found[1], int(found[2]))) is None:
            return
        failures.append(failure)
    raise EnvironmentFailureError(
        f"no {kind} answers at {master} ({'; '.join(failures)}): start one, correct --master, or leave"
        f" it out; {_WITHOUT}"
    )


def _failure(host: str, port: int) -> str | None:
    """Return why nobody answers; None if somebody does."""
    try:
        socket.create_connection((host, port), _CONNECT_TIMEOUT_S).close()
    except socket.gaierror:
        return f"no host has the name {host}"
    except TimeoutError:
        return f"{host}:{port} is silent for {_CONNECT_TIMEOUT_S:.0f} s"
    except (OSError, OverflowError) as failure:
        return f"{host}:{port}: {getattr(failure, 'strerror', None) or failure}"
    return None
