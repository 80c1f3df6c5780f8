"""The real broker's store classes, built once with Maven and run as the judge of a store.

Sources: `fixtures/make`. Jars and classes land outside the tree (`RMQTOOL_BROKER_CACHE`, else
`~/.cache/rmqtool/broker`), keyed by a hash of what they are made from; only the first fetch of the jars needs
a network. Every call below starts one JVM, which changes the store it is given: pass copies
(`tests.broker.stores`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.broker import brokers
from tests.built import cache, once

if TYPE_CHECKING:
    from collections.abc import Sequence

Version = brokers.Version
Row = dict[str, Any]

VERSIONS = brokers.wanted()
SOURCES = Path(__file__).resolve().parents[2] / "fixtures" / "make"

_OLDEST_JDK = 17
_BUILD_SECONDS = 900
_BUILDS = 3  # side by side
_TAIL_LINES = 40
# What a broker's own start script opens, as far as the store needs it to unmap files on a current JDK.
_FLAGS = (
    *("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Dfile.encoding=UTF-8"),
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.nio", "sun.nio.ch", "jdk.internal.ref")
    ),
)
# A server that may speak TLS makes a pair of RSA keys at each start, by the processor for a second or more.
_WITHOUT_TLS = "-Dtls.server.mode=disabled"
# For JVMs that live some seconds, and are not measured: what the better compiler makes would come too late.
SHORT_LIVED = ("-Xmx1g", "-XX:TieredStopAtLevel=1")
_UNREACHABLE = re.compile(r"Could not (resolve|transfer)|offline mode|Unknown host", re.IGNORECASE)


class BrokerFailure(RuntimeError):
    """The JVM or Maven failed; the message ends in the tail of its standard error."""


@dataclass(frozen=True)
class Toolchain:
    """The Maven command and the JDK it runs on."""

    maven: Path
    java: Path
    java_version: str


@dataclass(frozen=True)
class Found:
    """A store that a broker is to open.

    Attributes:
        root: The store, which the broker changes.
        conf: The broker's properties.
    """

    root: Path
    conf: Path


class StartArchive:
    """Classes as a start has loaded and checked them (JEP 350), which short-lived processes mostly work on.

    The first process that ends in order leaves them to those that come later, with the same class path.

    Args:
        home: Folder for it.
        name: Of its class path or program there.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._path = home / f"{name}-{_tools().java_version}.jsa"
        self._part = home / f"{name}-{uuid.uuid4()}.part"

    @property
    def flags(self) -> list[str]:
        """Java's flags to take the archive, or to make it if there is none; nothing is said of either."""
        is_there = self._path.exists()
        use = f"SharedArchiveFile={self._path}" if is_there else f"ArchiveClassesAtExit={self._part}"
        return [f"-XX:{use}", "-Xlog:disable", "-Xlog:all=error:stderr"]

    def keep(self) -> None:
        """Keep what a process has made that ended in order."""
        if self._part.exists():
            self._part.rename(self._path)


@functools.cache
def toolchain() -> Toolchain | str:
    """Find Maven and its JDK; a sentence when something is missing."""
    maven = shutil.which("mvn")
    if maven is None:
        return "Maven (mvn) is not on PATH"
    about = subprocess.run([maven, "-B", "-v"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Java version: (\d+)(\S*?),.*?runtime: (.+)", about)
    if found is None:
        return "mvn -v does not tell which JDK it runs on"
    home = Path(found[3].strip())
    if int(found[1]) < _OLDEST_JDK or not (home / "bin" / "javac").exists():
        return f"Maven runs on {home}, which is not a JDK {_OLDEST_JDK} or newer"
    return Toolchain(Path(maven), home / "bin" / "java", found[1] + found[2])


@functools.cache
def available() -> str | None:
    """Tell why no broker can be run here, or None when all versions are built and ready.

    Raises:
        BrokerFailure: The sources do not compile; that is a defect, not a missing tool.
    """
    tools = toolchain()
    if isinstance(tools, str):
        return tools
    try:
        with ThreadPoolExecutor(_BUILDS) as pool:
            list(pool.map(build, VERSIONS))
    except BrokerFailure as failure:
        if _UNREACHABLE.search(str(failure)):
            return "the broker's jars are not in the local Maven repository and cannot be fetched"
        raise
    return None


@functools.cache
def build(version: Version) -> Path:
    """Fetch the jars of one broker version, and compile the Java sources against them.

    Returns:
        The folder that holds `judge.jar` and `lib/`.

    Raises:
        BrokerFailure: Maven failed, offline and online, or the sources do not compile.
    """
    pom = SOURCES / "pom.xml"
    jars = once(cache("broker") / f"jars-{_digest([pom])}" / version, lambda at: _maven(version, at))
    sources = [*_java_files("common"), *_java_files(brokers.BROKERS[version].shim)]
    home = cache("broker") / _digest([pom, *sources]) / f"judge-{version}"
    return once(home, lambda at: _compile(sources, jars, at))


@functools.cache
def whole_jars(version: Version, around: str) -> Path:
    """Fetch the jars of a whole broker, name server and client; return the folder that holds them.

    Args:
        version: Of broker and store.
        around: Of the jars around them, whose own version was never published for some releases.
    """
    pom, row = SOURCES / "pom.xml", brokers.BROKERS[version]
    published = row.whole or version
    jars = f"-Drocketmq.jars={row.jars or published}"
    options = [jars, "-Pwhole", f"-Drocketmq.around={around}"]
    name = f"jars-{_digest([pom])}"
    return once(cache("broker") / name / f"whole-{version}", lambda at: _jars(published, at, pom, *options))


@functools.cache
def build_client(version: Version, around: str) -> Path:
    """Compile the client against those jars; as `build` does."""
    jars = whole_jars(version, around)
    sources = [*_java_files("common"), *_java_files(brokers.BROKERS[version].shim), *_java_files("whole")]
    return once(
        cache("broker") / _digest(sources) / f"client-{version}", lambda at: _compile(sources, jars, at)
    )


def whole_command(version: Version, around: str, options: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the command that runs a class of a whole broker: Java's options, then class and arguments."""
    given = [f"-Drocketmq.version={version}", _WITHOUT_TLS, *options]
    path = f"{whole_jars(version, around)}/*"
    if brokers.BROKERS[version].whole:  # what is published of the version itself comes first
        path = f"{build(version) / 'lib'}/*:{path}"
    return [str(_tools().java), *_FLAGS, *given, "-cp", path, *words]


def client_command(version: Version, around: str, options: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the command that runs the client: Java's options, then its arguments."""
    home = build_client(version, around)
    given = [f"-Drocketmq.version={version}", *options]
    return [str(_tools().java), *_FLAGS, *given, "-cp", _judge_path(home), "fixtures.Client", *words]


@functools.cache
def build_proxy(version: str) -> Path:
    """Fetch the jars of a proxy; return the folder that holds them."""
    pom = SOURCES / "proxy.xml"
    return once(
        cache("broker") / f"jars-{_digest([pom])}" / f"proxy-{version}", lambda at: _jars(version, at, pom)
    )


def proxy_command(
    version: Version, around: str, options: Sequence[str], words: Sequence[str], *, local: bool
) -> list[str]:
    """Return the command that runs a proxy: Java's options, then its arguments.

    Args:
        version: Of the broker.
        around: Of the proxy.
        options: Java's.
        words: The proxy's.
        local: Whether the broker runs in it.
    """
    path = f"{build_proxy(around)}/*"
    if local:  # what is published of the broker's own version comes first
        path = f"{whole_jars(version, around)}/*:{path}"
    main = ["-cp", path, "org.apache.rocketmq.proxy.ProxyStartup"]
    return [str(_tools().java), *_FLAGS, f"-Drocketmq.version={version}", *options, *main, *words]


def _maven(version: Version, target: Path) -> None:
    row = brokers.BROKERS[version]
    options = [f"-Drocketmq.jars={row.jars or version}"]
    if row.shim == "4.9":
        options.append("-Drocketmq.slf4j=1.7.36")
    _jars(version, target, SOURCES / "pom.xml", *options)


def _jars(version: str, target: Path, pom: Path, *options: str) -> None:
    copy_jars(target, pom, f"-Drocketmq.version={version}", *options)


def copy_jars(target: Path, pom: Path, *options: str) -> None:
    """Copy what a pom names into a folder, offline where the local repository has everything, else online.

    Raises:
        BrokerFailure: It cannot be had.
    """
    arguments = ["-q", "-B", "-f", str(pom), f"-Dlib={target}", *options, "package"]
    maven = str(_tools().maven)
    complaint = _complaint([maven, "-o", *arguments]) and _complaint([maven, *arguments])
    if complaint:
        raise BrokerFailure(f"mvn {' '.join(arguments)} failed:\n{_tail(complaint)}")


def _compile(sources: list[Path], jars: Path, target: Path) -> None:
    (target / "lib").symlink_to(jars)
    classes = target / "classes"
    command = [str(_tools().java.with_name("javac")), "-nowarn", "-encoding", "UTF-8", "-d", str(classes)]
    complaint = _complaint([*command, "-cp", f"{jars}/*", *map(str, sources)])
    if complaint:
        raise BrokerFailure(f"the sources of the judge do not compile:\n{_tail(complaint)}")
    Path(shutil.make_archive(str(target / "judge"), "zip", classes)).rename(target / "judge.jar")


def _judge_path(home: Path) -> str:
    """Return the class path of what is compiled here: jars alone, as Java archives classes of no folder."""
    return f"{home / 'judge.jar'}:{home / 'lib'}/*"


def _java_files(folder: str) -> list[Path]:
    return sorted((SOURCES / "src" / folder).rglob("*.java"))


def _complaint(command: list[str]) -> str:
    """Run a command; what it printed if it failed, else nothing."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS)
    return (result.stdout + result.stderr or "no output") if result.returncode else ""


def run(
    version: Version,
    main: str,
    *args: str | Path,
    timeout: float = 120,
    timezone: str = "UTC",
    options: Sequence[str] = SHORT_LIVED,
    ends: int = 0,
) -> list[Row]:
    """Run one of the Java main classes and return the objects it printed.

    Args:
        version: Broker version.
        main: `Make` or `Judge`.
        args: Its arguments.
        timeout: Seconds before the JVM is killed.
        timezone: The broker's default time zone, visible in index file names.
        options: Further JVM options, such as the heap of a benchmark.
        ends: The return code it ends with, negative for a signal.

    Raises:
        BrokerFailure: It failed, hung, or printed something that is no JSON.
    """
    home = build(version)
    # RocksDB unpacks its library into the temporary folder, and a process that halts leaves it there.
    with tempfile.TemporaryDirectory(prefix="rmqtool-broker-") as scratch:
        command = [
            str(_tools().java),
            *_FLAGS,
            _WITHOUT_TLS,
            f"-Drocketmq.version={version}",
            f"-Duser.timezone={timezone}",
        ]
        command += [f"-Djava.io.tmpdir={scratch}", f"-Duser.home={scratch}", *options]
        archive = StartArchive(home, main)
        command += [*archive.flags, "-cp", _judge_path(home), f"fixtures.{main}", *map(str, args)]
        rows = _objects(command, f"{main} {' '.join(map(str, args))} on {version}", timeout, ends)
        if ends == 0:
            archive.keep()
        return rows


def _objects(command: list[str], what: str, timeout: float, ends: int) -> list[Row]:
    """Run a command and parse the JSON objects it prints."""
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            check=False,
            timeout=timeout,
            # Java names files by the locale's encoding, and topics may be Chinese.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired as expired:
        error = (expired.stderr or b"").decode(errors="replace")
        raise BrokerFailure(f"{what} still ran after {timeout} s:\n{_tail(error)}") from expired
    error = result.stderr.decode(errors="replace")
    if result.returncode != ends:
        raise BrokerFailure(f"{what} ended with {result.returncode}:\n{_tail(error)}")
    try:
        return [json.loads(line) for line in result.stdout.decode().splitlines()]
    except ValueError as wrong:
        raise BrokerFailure(f"{what} printed what is no ndjson ({wrong}):\n{_tail(error)}") from wrong


def judge(
    version: Version,
    *args: str | Path,
    timeout: float = 120,
    timezone: str = "UTC",
    options: Sequence[str] = SHORT_LIVED,
) -> list[Row]:
    """Run the judge with raw arguments; as `run` does; prefer `rebuild` and `serve`."""
    return run(version, "Judge", *args, timeout=timeout, timezone=timezone, options=options)


def kill(version: Version, milliseconds: int, stores: Sequence[Found]) -> None:
    """Let brokers write, all in one JVM, until a signal kills it; the stores are made."""
    run(version, "Judge", "kill", str(milliseconds), *_words(stores), ends=-signal.SIGKILL)


def rebuild(
    version: Version,
    root: Path,
    conf: Path,
    *,
    timeout: float = 120,
    timezone: str = "UTC",
    options: Sequence[str] = SHORT_LIVED,
) -> Row:
    """Let the broker regenerate the derived files of a store from its log alone.

    The caller has removed the derived directories and `abort` (`stores.strip_derived`).

    Returns:
        `seconds_load`, `seconds_dispatch`, and `min_phy`, `max_phy` as log offsets.
    """
    (row,) = judge(version, "rebuild", root, conf, timeout=timeout, timezone=timezone, options=options)
    return row


def recover(version: Version, stores: Sequence[Found], *, timeout: float = 300) -> list[Row]:
    """Start brokers on stores, many in one JVM; what each found and made of it, by store."""
    return judge(version, "recover", *_words(stores), timeout=timeout)


def regenerate(version: Version, stores: Sequence[Found], *, timeout: float = 300) -> list[Row]:
    """Do the same, and wait until brokers have dispatched all of the log, or get no further (`settled`)."""
    return judge(version, "regenerate", *_words(stores), timeout=timeout)


def clean(version: Version, stores: Sequence[Found]) -> None:
    """Start brokers on stores, and let their runs delete what has expired, until these find nothing more."""
    judge(version, "clean", *_words(stores), timeout=300)


def _words(stores: Sequence[Found]) -> list[Path]:
    return [path for store in stores for path in (store.root, store.conf)]


def serve(
    version: Version,
    stores: Sequence[Found],
    *,
    append: int = 0,
    restart: bool = False,
    timeout: float = 300,
    timezone: str = "UTC",
) -> list[list[Row]]:
    """Let brokers open stores, many in one JVM, and serve every message and every key of them.

    Each row carries `phase`: `as-found`, then `after-append` when messages were appended and `after-restart`
    when the broker was stopped cleanly and opened again. A field that is null in Java is absent.

    Returns:
        Rows of type `queue`, `message` and `query` (at most 64 offsets a query, as in the broker), by store.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(number) for number in range(len(stores))]
        args: list[str | Path] = ["serve", str(append), str(restart).lower()]
        for store, file in zip(stores, files, strict=True):
            args += [store.root, store.conf, file]
        judge(version, *args, timeout=timeout, timezone=timezone)
        return [[json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files]


def copy(version: Version, pairs: Sequence[tuple[Found, Path]]) -> list[list[Row]]:
    """Let slaves copy logs of masters, all in one JVM, and serve what they made of them.

    Args:
        version: Of master and slave.
        pairs: A master's store, and the root of its slave, which has the first file of the log: one that has
            none is given the last file alone.

    Returns:
        What each slave serves, as of ``serve``.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(number) for number in range(len(pairs))]
        args: list[str | Path] = ["copy"]
        for (master, slave), file in zip(pairs, files, strict=True):
            args += [master.root, master.conf, slave, file]
        judge(version, *args)
        return [[json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files]


def follow(version: Version, pairs: Sequence[tuple[Found, Path]]) -> list[Row]:
    """Let slaves follow masters, all in one JVM, until all is copied or nothing has moved for seconds.

    Returns:
        ``end`` of the slave's log, ``masterEnd``, and ``behind``: bytes that its queues lack, by pair.
    """
    return judge(version, "follow", *(word for pair in pairs for word in (*_words([pair[0]]), pair[1])))


def _tools() -> Toolchain:
    tools = toolchain()
    if isinstance(tools, str):
        raise BrokerFailure(tools)
    return tools


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(SOURCES).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
