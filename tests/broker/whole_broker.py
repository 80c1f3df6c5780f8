"""A whole broker with its name server and a client, each a process of its own, on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.broker import jvm
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

VERSION: jvm.Version = "5.5.1"
NAME = "whole"
_AROUND: dict[jvm.Version, str] = {"5.5.1": "5.5.0", "4.9.8": "4.9.7"}
"""What lies around broker and store, where it was never published in their version."""
_CLIENTS: dict[jvm.Version, jvm.Version] = {"4.9.8": "5.3.3"}
"""Whose client speaks to a broker, where its own cannot say all that is asked of it."""
_BROKER_PORTS = 3
_BROKER_RUNS = "The broker["
_PROXY_RUNS = "rocketmq-proxy startup successfully"
_STOP_SECONDS = 180
_IN_ORDER = {0, 128 + signal.SIGTERM}
"""Status of a process that came to its end."""
_DELETE_TOPIC = 215
_CLIENT_SECONDS = 150
_SETTINGS = {
    "brokerName": NAME,
    "brokerIP1": "127.0.0.1",
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 600,
    "maxHashSlotNum": 50,
    "maxIndexNum": 200,
    "maxMessageSize": 16384,
    "diskMaxUsedSpaceRatio": 99,
    "cleanFileForciblyEnable": "false",
    "transactionCheckInterval": 3_600_000,  # what is checked is written again
    "timerFlushIntervalMs": 10_000,  # each flush compares all 38 MB of the wheel, byte by byte
}


@dataclass(frozen=True)
class Site:
    """Where broker and name server live.

    Attributes:
        folder: Of everything they write.
        name_server_port: On loopback.
        broker_port: The broker takes the ports below and above as well.
        version: Of broker and name server.
    """

    folder: Path
    name_server_port: int
    broker_port: int
    version: jvm.Version = VERSION

    @property
    def store(self) -> Path:
        """The broker's store root."""
        return self.folder / "store"

    @property
    def conf(self) -> Path:
        """The broker's settings."""
        return self.store / "broker.conf"

    @property
    def name_server(self) -> str:
        """Address of the name server."""
        return f"127.0.0.1:{self.name_server_port}"


@contextmanager
def site(
    folder: Path, version: jvm.Version = VERSION, settings: Mapping[str, object] | None = None
) -> Iterator[Site]:
    """Run a name server, with the settings of a broker beside it."""
    made = Site(folder, free_ports(1), free_ports(_BROKER_PORTS) + 1, version)
    values = {
        **_SETTINGS,
        **(settings or {}),
        "namesrvAddr": made.name_server,
        "listenPort": made.broker_port,
        "fastListenPort": made.broker_port - 1,
        "haListenPort": made.broker_port + 1,
        "storePathRootDir": made.store,
    }
    made.store.mkdir()
    made.conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), "utf-8")
    (folder / "conf").mkdir()
    for name in ("broker", "namesrv"):  # 4.9 does not start without
        (folder / "conf" / f"logback_{name}.xml").write_text("<configuration/>\n", "utf-8")
    conf = folder / "namesrv.conf"
    conf.write_text(f"listenPort={made.name_server_port}\nkvConfigPath={folder}/kvConfig.json\n", "utf-8")
    with _process(made, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf)):
        yield made


@contextmanager
def broker(at: Site) -> Iterator[subprocess.Popen[bytes]]:
    """Run the broker; whoever leaves it running kills it."""
    with _process(at, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(at.conf)) as process:
        yield process


@contextmanager
def running(at: Site) -> Iterator[subprocess.Popen[bytes]]:
    """Run the broker; yields once it says that it is up, or has ended before that."""
    before, deadline = _said(at).count(_BROKER_RUNS), time.monotonic() + _STOP_SECONDS
    with broker(at) as process:
        while process.poll() is None and _said(at).count(_BROKER_RUNS) == before:
            if time.monotonic() > deadline:
                raise jvm.BrokerFailure(f"the broker does not end its start:\n{log(at)}")
            time.sleep(0.1)
        yield process


@contextmanager
def proxy(at: Site, *, local: bool = False) -> Iterator[int]:
    """Run a proxy of that cluster, or one that is the broker, too; yields its port for gRPC, once it runs."""
    deadline = time.monotonic() + _CLIENT_SECONDS
    while time.monotonic() < deadline:
        port = free_ports(2)
        if abs(port - at.broker_port) < _BROKER_PORTS:  # which that has not taken yet
            continue
        before = _said(at).count(_PROXY_RUNS)
        with _running(at, _proxy_command(at, port, local=local)) as process:
            # It gives up where a port was taken meanwhile, or no broker has registered yet.
            while process.poll() is None and time.monotonic() < deadline:
                if _said(at).count(_PROXY_RUNS) > before:
                    yield port
                    return
                time.sleep(0.1)
    raise jvm.BrokerFailure(f"the proxy does not answer:\n{log(at)}")


def _proxy_command(at: Site, port: int, *, local: bool) -> list[str]:
    conf = at.folder / "rmq-proxy.json"
    names = dict.fromkeys(("rocketMQClusterName", "proxyClusterName"), "DefaultCluster")
    ports = {"grpcServerPort": port, "remotingListenPort": port + 1, "localServeAddr": "127.0.0.1"}
    conf.write_text(json.dumps({**names, **ports, "namesrvAddr": at.name_server}), "utf-8")
    options = [*_options(at), f"-Dcom.rocketmq.proxy.configPath={conf}"]
    mode = ["-pm", "local", "-bc", str(at.conf)] if local else ["-pm", "cluster"]
    words = [*mode, "-n", at.name_server]
    return jvm.proxy_command(at.version, around(at.version), options, words, local=local)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a broker to stop, and wait until it has; what its threads do is in its log if it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait(_STOP_SECONDS)


def send(at: Site, first: int, count: int) -> list[dict[str, Any]]:
    """Send messages of all kinds; a row for each that the broker stored."""
    return _rows(at, "send", at.name_server, str(first), str(count))


@contextmanager
def sending(at: Site, first: int, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """Send while something else happens; rows come as they are stored."""
    command = ["send", at.name_server, str(first), str(count)]
    with _client(at, *command) as process:
        yield process


def fates(at: Site, group: str) -> list[dict[str, Any]]:
    """Send messages that a consumer of a group fails with, or does not; a row for each."""
    return _rows(at, "fates", at.name_server, group)


def broadcast(at: Site, group: str, count: int) -> Path:
    """Consume messages as a client that keeps its group's offsets itself; return its file."""
    assert _rows(at, "broadcast", at.name_server, group, str(count)) == [{"done": True}], log(at)
    (file,) = at.folder.glob(f".rocketmq_offsets/*/{group}/offsets.json")
    return file


def late(at: Site, kinds: Collection[str]) -> list[str]:
    """Send messages of some kinds that services of the broker bring into a topic later; the key of each."""
    return [row["key"] for row in _rows(at, "late", at.name_server, ",".join(kinds))]


def await_keys(at: Site, keys: Collection[str]) -> set[str]:
    """Commit what a running broker asks about until these have come; return what did."""
    file = at.folder / "keys"
    file.write_text("\n".join(sorted(keys)), "utf-8")
    return {row["key"] for row in _rows(at, "await", at.name_server, str(file))}


def delete_topic(at: Site, topic: str) -> None:
    """Ask a running broker, as its tools do, to delete a topic with its queues."""
    ask(at, _DELETE_TOPIC, topic=topic)


def ask(at: Site, code: int, **fields: str) -> bytes:
    """Send a running broker a request by its number (``RequestCode``); return the body of the answer."""
    header = {"code": code, "flag": 0, "language": "OTHER", "opaque": 1, "version": 0}
    head = json.dumps({**header, "extFields": fields}).encode()
    with socket.create_connection(("127.0.0.1", at.broker_port), _CLIENT_SECONDS) as channel:
        channel.sendall(struct.pack(">II", 4 + len(head), len(head)) + head)
        with channel.makefile("rb") as answer:
            length, head_length = struct.unpack(">II", answer.read(8))
            whole = answer.read(length - 4)
    assert json.loads(whole[:head_length])["code"] == 0
    return whole[head_length:]


def bounds(at: Site, queues: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """Ask a running broker for min and max offset of queues."""
    file = at.folder / "queues"
    lines = [json.dumps({"topic": topic, "queueId": queue_id}) for topic, queue_id in queues]
    file.write_text("\n".join(lines), "utf-8")
    rows = _rows(at, "bounds", at.name_server, NAME, str(file))
    return {(row["topic"], row["queueId"]): (row["min"], row["max"]) for row in rows}


def _rows(at: Site, *words: str) -> list[dict[str, Any]]:
    with _client(at, *words) as process:
        out, _ = process.communicate(timeout=_CLIENT_SECONDS)
    if process.returncode:
        raise jvm.BrokerFailure(f"{' '.join(words)} ended with {process.returncode}:\n{log(at)}")
    return [json.loads(line) for line in out.decode().splitlines()]


def log(at: Site) -> str:
    """Return the end of what the processes said."""
    return _said(at)[-4000:]


def _said(at: Site) -> str:
    return (at.folder / "said").read_text("utf-8", "replace")


@contextmanager
def _process(at: Site, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a class of a whole broker; it is dead at the end, come what may."""
    archive = jvm.StartArchive(jvm.whole_jars(at.version, around(at.version)).parent, f"whole-{at.version}")
    options = [*_options(at), *archive.flags]
    with _running(at, jvm.whole_command(at.version, around(at.version), options, words)) as process:
        yield process
        if process.poll() in _IN_ORDER:
            archive.keep()


@contextmanager
def _client(at: Site, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the client, whose rows can be read."""
    version = _CLIENTS.get(at.version, at.version)
    archive = jvm.StartArchive(jvm.build_client(version, around(version)), "client")
    options = [*_options(at), *archive.flags]
    command = jvm.client_command(version, around(version), options, words)
    with _running(at, command, subprocess.PIPE) as process:
        yield process
        if process.poll() in _IN_ORDER:
            archive.keep()


def around(version: jvm.Version) -> str:
    """Return the version of what lies around a broker and its store."""
    return _AROUND.get(version, version)


def _options(at: Site) -> list[str]:
    homes = [f"-D{name}={at.folder}" for name in ("user.home", "java.io.tmpdir", "rocketmq.home.dir")]
    return [*homes, "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:TieredStopAtLevel=1"]


@contextmanager
def _running(at: Site, command: list[str], stdout: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with (at.folder / "said").open("ab") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout or said,
            stderr=said,
            env={**os.environ, "LC_ALL": "C.UTF-8", "RMQ_PROXY_HOME": str(at.folder)},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(_STOP_SECONDS)
        if process.stdout:
            process.stdout.close()
