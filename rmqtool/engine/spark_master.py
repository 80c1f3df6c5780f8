"""Checks of a master before a start that would wait for it for more than a minute."""

from __future__ import annotations

import re
import socket
from importlib.metadata import version
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.engine.interface import EngineOptions

_CONNECT_TIMEOUT_S = 5.0
_STANDALONE = re.compile(r"spark://(.*)")
_ADDRESS = re.compile(r"\[?([^\]]+?)\]?:(\d+)")
_CONNECT = re.compile(r"sc://([^/;]+)")
_CONNECT_PORT = 15002
"""Port where the URL names none."""
_WITHOUT = "--engine local needs none a cluster"

_COUNT = r"0*[1-9][0-9]{0,8}"
_LOCAL = re.compile(rf"local(\[(\*|{_COUNT})(\s*,\s*{_COUNT})?\])?")
_OTHER = re.compile(
    rf"local-cluster\[\s*{_COUNT}\s*,\s*{_COUNT}\s*,\s*{_COUNT}\s*\]|yarn|k8s://.+|sc://[^/;].*"
)
"""Other masters that Spark accepts (``SparkMasterRegex`` and ``SparkSubmit`` of 4.3), and its Connect."""
_HOST = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")
"""Java's URI accepts no others: none with an underscore, as containers may have."""
_EMPTY = "''"
_MASTERS = "give local[N], spark://HOST:PORT, yarn, k8s://… or sc://…"

_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_IMAGES = ("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image")


def check_form(options: EngineOptions) -> None:
    """Raise `UsageError` for a master that Spark does not accept; Java would say so after seconds."""
    master, setting = options.master, "spark.master"
    if master is not None:
        given = f"--master {master or _EMPTY}"
    elif setting in options.spark_conf:
        master = options.spark_conf[setting]
        given = f"--spark-conf {setting}={master}"
    else:
        return
    if wrong := _wrong_form(master):
        raise UsageError(f"{given}: {wrong}")


def _wrong_form(master: str) -> str:
    if standalone := _STANDALONE.fullmatch(master):
        several = "," in standalone[1]
        for address in standalone[1].split(","):
            if wrong := _wrong_address(address):
                return f"{address + ' ' if several else ''}{wrong}; give it as spark://HOST:7077"
        return ""
    if _LOCAL.fullmatch(master) or _OTHER.fullmatch(master):
        return ""
    if master.startswith("local["):
        return "has no number of threads from 1 on; give local[N], or local[*] for all cores"
    return f"is not a master; {_MASTERS}, or leave it out"


def _wrong_address(address: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return "has no port" if address else "has no host"
    if not re.fullmatch(r"[0-9]{1,5}", port):
        return f"has no port, which is a number, but {port}" if port else "has no port"
    if not host:
        return "has no host"
    if not _HOST.fullmatch(host):
        return f"has a host that Spark does not take, {host}: it has letters, digits, hyphens and dots only"
    return ""


def check_master(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Check what can be known of a cluster before its driver starts.

    ``environment`` is the driver's. Raises `EnvironmentFailureError` if it does not answer, or something that
    such a cluster needs is not given.
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
    """Return the message on a master that accepts connections and does not register an application."""
    return (
        f"{master} takes connections, but does not register this application: it may run another line of "
        f"Spark than the {version('pyspark')} here (see its web page), or not be a master; {_WITHOUT}"
    )


def _check_addresses(kind: str, master: str, addresses: list[str]) -> None:
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
    try:
        socket.create_connection((host, port), _CONNECT_TIMEOUT_S).close()
    except socket.gaierror:
        return f"no host has the name {host}"
    except TimeoutError:
        return f"{host}:{port} is silent for {_CONNECT_TIMEOUT_S:.0f} s"
    except (OSError, OverflowError) as failure:
        return f"{host}:{port}: {getattr(failure, 'strerror', None) or failure}"
    return None
