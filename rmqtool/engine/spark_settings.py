"""Settings of Spark: its master, its configuration, the command line of its Java, its environment.

A *private* driver (``local[...]`` masters) is a Java process that we start ourselves, bound to loopback, with
everything it writes in one private folder. A *cluster* driver is started by Spark's own launcher, with the
user's Spark installation and defaults.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.engine import EngineOptions, usable_cpus
from rmqtool.engine.spark_java import Java, StartCache
from rmqtool.errors import EnvironmentFailureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


_LOOPBACK = "127.0.0.1"

_LONGEST_SOCKET_FOLDER = 60
"""Bytes; Spark appends a name of 42, and systems allow socket paths of 103 or 107."""

_OPENED_PACKAGES = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Modules that Spark 4.3 opens for itself (``JavaModuleOptions``); 4.0 to 4.2 run with it."""

_JVM_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",  # first: Java 17 does not know all that 25 needs
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-XX:+UseSerialGC",  # a short life and small heaps: the plainest collector starts fastest
    "-XX:NewSize=256m",  # a small store leaves 200 MiB of garbage, which is not worth collecting
    "-XX:MetaspaceSize=128m",  # nor are its classes
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",  # the cache of a start is mapped as it is
    "-XX:-UsePerfData",
    "-XX:TieredStopAtLevel=1",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Djava.net.preferIPv4Stack=true",  # loopback means 127.0.0.1
    "-Duser.timezone=UTC",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
)

_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
"""Class that ``SparkSubmit`` starts in the end, configured by system properties."""

_READ_BY_SUBMIT = ("spark.jars", "spark.kerberos.", "spark.submit.")
"""Prefixes of settings that ``SparkSubmit`` reads, and not the driver alone."""

_ATTEMPTS = 1000
"""Of one task, which no cluster reaches: executors without an attempt left end it."""

CLUSTER_SETTINGS = {
    # An executor that fails tasks of one stage, as one that does not see the store, gets no more of it.
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "2",
    # Others on the same machine may see it, as containers do: the machine is never to blame.
    "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": str(_ATTEMPTS - 1),
    "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": str(_ATTEMPTS),
    # One that does not see this store may be the only one that sees the next, or the next stage's scratch.
    "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": str(_ATTEMPTS),
    "spark.excludeOnFailure.application.maxFailedExecutorsPerNode": str(_ATTEMPTS),
    # Where a task has no executor left, Spark kills one and waits for its successor, which fails as well, and
    # so on. `RddJobs` waits for executors that come late.
    "spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout": "0s",
    "spark.task.maxFailures": str(_ATTEMPTS),
}
"""Executors differ: a task that fails on one is tried on all others, twice on each."""


class DriverCommand(NamedTuple):
    """Command that starts the Java process of the driver."""

    arguments: list[str]
    environment: dict[str, str]


def master_of(options: EngineOptions) -> str:
    """Return the master URL: the option, the user's ``spark.master``, or all jobs in one private process."""
    given = options.master or options.spark_conf.get("spark.master")
    return given or f"local[{options.jobs or usable_cpus()}]"


def is_private(master: str) -> bool:
    """Return whether executors live in the driver's process, which we then start and end."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def worker_python(options: EngineOptions) -> str:
    """Return the interpreter for tasks: this one, unless the user names another that a cluster has."""
    if is_private(master_of(options)):
        return sys.executable
    named = options.spark_conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    return named or sys.executable


def driver_command(options: EngineOptions, java: Java, folder: Path) -> DriverCommand:
    """Return the command for the options' master; its files go to ``folder``."""
    if is_private(master_of(options)):
        return _private_command(options, java, folder)
    return _cluster_command(options, java, folder)


def driver_settings(options: EngineOptions, folder: Path) -> dict[str, str]:
    """Return Spark's settings for the options' master; a private driver's files go to ``folder``."""
    master = master_of(options)
    own = {"spark.master": master, "spark.submit.deployMode": "client"}
    if not is_private(master):
        limit = {} if options.jobs is None else {"spark.cores.max": str(options.jobs)}
        return {**_quiet_settings(), **CLUSTER_SETTINGS, **limit, **options.spark_conf, **own}
    return {
        **_quiet_settings(),
        **_worker_socket_settings(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **options.spark_conf,
        **own,
        # These keep the process private, whatever the user's settings say.
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.local.dir": str(folder),
    }


def _private_command(options: EngineOptions, java: Java, folder: Path) -> DriverCommand:
    user = options.spark_conf
    settings = driver_settings(options, folder)
    classes = class_path(user)
    arguments = [str(java.executable), "-cp", os.pathsep.join(classes), *_JVM_FLAGS]
    arguments += StartCache(java, classes).flags
    arguments.append(f"-Djava.io.tmpdir={folder}")
    if memory := user.get("spark.driver.memory"):
        arguments.append(f"-Xmx{memory}")
    arguments += shlex.split(user.get("spark.driver.extraJavaOptions", ""))
    if not any(name.startswith(_READ_BY_SUBMIT) for name in user):
        arguments += [*(f"-D{name}={value}" for name, value in settings.items()), _GATEWAY]
    else:
        arguments += [_SUBMIT, *_submit_arguments(settings)]
    return DriverCommand(arguments, _private_environment(folder))


def class_path(user: Mapping[str, str]) -> list[str]:
    """Return each place of a private driver's classes, as a cache of them depends on their order."""
    own = user.get("spark.driver.extraClassPath", "").split(os.pathsep)
    jars = sorted((_pyspark_folder() / "jars").glob("*.jar"))
    return [*filter(None, own), *map(str, jars)]


def _cluster_command(options: EngineOptions, java: Java, folder: Path) -> DriverCommand:
    settings = driver_settings(options, folder)
    home = Path(os.environ.get("SPARK_HOME") or _pyspark_folder())
    environment = {
        "SPARK_LOCAL_DIRS": str(folder),  # the driver's only: executors choose their own
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_CONNECT_MODE": "0",
    }
    return DriverCommand([str(home / "bin" / "spark-submit"), *_submit_arguments(settings)], environment)


def _submit_arguments(settings: Mapping[str, str]) -> list[str]:
    return [
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        "pyspark-shell",
    ]


def _quiet_settings() -> dict[str, str]:
    return {
        "spark.app.name": "rmqtool",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.task.killTimeout": "200ms",  # a failed map must not leave tasks writing for seconds
    }


def _worker_socket_settings(folder: Path) -> dict[str, str]:
    """Return settings for Unix sockets of workers: over TCP, delayed ACKs cost each task 40 ms."""
    if len(os.fsencode(folder)) > _LONGEST_SOCKET_FOLDER:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


def _private_environment(folder: Path) -> dict[str, str]:
    """Return our environment without variables that another Spark installation would read.

    Without SPARK_HOME the workers import pyspark as this interpreter does, not from the installation's zip.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return {
        **kept,
        "SPARK_LOCAL_IP": _LOOPBACK,
        "SPARK_CONNECT_MODE": "0",
        "TMPDIR": str(folder),
        # Workers run this interpreter, and must find the modules that this process found.
        "PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path),
    }


def _pyspark_folder() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


_CONNECT_TIMEOUT_S = 5.0
_STANDALONE = re.compile(r"spark://(.*)")
_ADDRESS = re.compile(r"\[?([^\]]+?)\]?:(\d+)")
_CONNECT = re.compile(r"sc://([^/;]+)")
_CONNECT_PORT = 15002
"""Port where the URL names none."""
_WITHOUT = "--engine local needs none a cluster"

_COUNT = r"0*[1-9][0-9]{0,8}"
_HOST_AND_PORT = r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
"""Java's URI accepts no other host: none with an underscore, as containers may have."""
_MASTER = re.compile(
    rf"local(\[(\*|{_COUNT})(\s*,\s*{_COUNT})?\])?|spark://{_HOST_AND_PORT}(,{_HOST_AND_PORT})*"
    rf"|local-cluster\[\s*{_COUNT}\s*,\s*{_COUNT}\s*,\s*{_COUNT}\s*\]|yarn|k8s://.+|sc://[^/;].*"
)
"""Masters that Spark accepts (``SparkMasterRegex`` and ``SparkSubmit`` of 4.3), and its Connect."""
_NO_MASTER = (
    "is not a master; give local[N] with N from 1 on, spark://HOST:PORT (HOST in letters, digits, hyphens and"
    " dots), yarn, k8s://… or sc://…, or leave it out"
)

_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_IMAGES = ("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image")


def check_form(options: EngineOptions) -> None:
    """Raise `UsageError` for a master that Spark does not accept; Java would say so after seconds."""
    master, setting = options.master, "spark.master"
    if master is not None:
        given = f"--master {master}" if master else "--master ''"
    elif setting in options.spark_conf:
        master = options.spark_conf[setting]
        given = f"--spark-conf {setting}={master}"
    else:
        return
    if not _MASTER.fullmatch(master):
        raise UsageError(f"{given}: {_NO_MASTER}")


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
        match = _ADDRESS.fullmatch(address)
        if match is None or (failure := _failure(match[1], int(match[2]))) is None:
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
