"""A group of three brokers with DLedger whose leader is killed: their logs compared, healed, converted."""

from __future__ import annotations

import re
import shutil
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from tests.broker import jvm, whole_broker
from tests.broker.test_convert import plain_conf, served
from tests.ports import free_ports
from tests.runs import run_line

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

VERSION: jvm.Version = "5.3.3"
MEMBERS = 3
SENT = 40
_ROUTE = 105
_WAIT_SECONDS = 120
_MASTER = re.compile(rb'"?\b0"?:"127\.0\.0\.1:([0-9]+)"')


def _written(at: Site, **values: object) -> None:
    known = dict(line.split("=", 1) for line in at.conf.read_text("utf-8").splitlines())
    text = "".join(f"{key}={value}\n" for key, value in {**known, **values}.items())
    at.conf.write_text(text, "utf-8")


def _members(first: Site, folder: Path) -> list[Site]:
    """Return the sites of a group that registers at the name server of the first."""
    ports = [free_ports(1) for _ in range(MEMBERS)]
    peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports))
    sites = [first]
    for number in range(1, MEMBERS):
        port = free_ports(3) + 1
        site = whole_broker.Site(folder / f"n{number}", first.name_server_port, port, first.version)
        site.store.mkdir(parents=True)
        shutil.copytree(first.folder / "conf", site.folder / "conf")
        shutil.copy(first.conf, site.conf)
        _written(
            site,
            listenPort=port,
            fastListenPort=port - 1,
            haListenPort=port + 1,
            storePathRootDir=site.store,
        )
        sites.append(site)
    for number, site in enumerate(sites):
        _written(
            site,
            enableDLegerCommitLog="true",
            dLegerGroup=whole_broker.NAME,
            dLegerPeers=peers,
            dLegerSelfId=f"n{number}",
        )
    return sites


def _leader(sites: list[Site], but: int = 0) -> Site:
    """Return the member that the name server knows as master, once there is one on another port."""
    server = whole_broker.Site(sites[0].folder, sites[0].name_server_port, sites[0].name_server_port)
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            answer = whole_broker.ask(server, _ROUTE, topic="TBW102")
        except (AssertionError, OSError):
            answer = b""
        for match in _MASTER.finditer(answer):
            if (port := int(match[1])) != but:
                return next(site for site in sites if site.broker_port == port)
        time.sleep(0.3)
    raise jvm.BrokerFailure(f"no member leads:\n{whole_broker.log(sites[0])}")


def _entries(site: Site) -> list[tuple[str, int, int]]:
    """Return topic, queue id and queue offset of all messages of a member's log."""
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        return [(one.topic, one.queue_id, one.queue_offset) for one in store.messages()]


def _run_group(sites: list[Site], kept: Path) -> list[dict[str, Any]]:
    """Run a group, kill its leader, let it come again; return the rows of what was stored."""
    with ExitStack() as stack:
        running: dict[Site, Popen[bytes]] = {
            site: stack.enter_context(whole_broker.broker(site)) for site in sites
        }
        leader = _leader(sites)
        rows = whole_broker.send(leader, 0, SENT)
        running[leader].kill()
        running[leader].wait()
        shutil.copytree(leader.store, kept)
        rows += whole_broker.send(_leader(sites, but=leader.broker_port), SENT, SENT)
        running[leader] = stack.enter_context(whole_broker.broker(leader))
        deadline = time.monotonic() + _WAIT_SECONDS
        while len({len(_entries(site)) for site in sites}) > 1 and time.monotonic() < deadline:
            time.sleep(0.5)
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait(_WAIT_SECONDS)
    return rows


def test_members_agree_heal_each_other_and_are_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    (tmp_path / "n0").mkdir()
    with whole_broker.site(tmp_path / "n0", VERSION) as first:
        sites = _members(first, tmp_path)
        rows = _run_group(sites, kept)
    assert len(rows) > SENT
    there = _entries(sites[0])
    assert {row["queueOffset"] for row in rows if row["kind"] == 0} <= {offset for *_, offset in there}
    assert all(_entries(site) == there for site in sites)
    for site in sites[1:]:
        equal = run_line(capsys, "diff", sites[0].store, site.store, "--format", "json").document["verdict"]
        assert (equal["histories"], equal["ahead"]) == ("equal", None)
    left = run_line(capsys, "diff", kept, sites[1].store, "--format", "json").document["verdict"]
    assert (left["histories"], left["ahead"]) == ("one", "b")
    terms = [share["lastEntry"]["term"] for share in left["shares"]]
    assert terms[0] < terms[1]

    (file,) = (sites[2].store / "dledger-n2" / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[3000:9000] = bytes(6000)
    file.write_bytes(data)
    with (
        rmqtool.open(sites[2].store, broker_conf=sites[2].conf) as holed,
        rmqtool.open(sites[1].store, broker_conf=sites[1].conf) as whole,
    ):
        assert holed.salvage(tmp_path / "alone").lost.proven > 0
        healed = holed.salvage(tmp_path / "healed", [whole])
        assert healed.lost.proven == 0
        assert healed.records == len(there)
        whole.convert(tmp_path / "plain")
    conf = plain_conf(sites[1].conf, tmp_path / "broker.conf")
    for made in ("healed", "plain"):
        (answers,) = jvm.serve(VERSION, [jvm.Found(tmp_path / made, conf)], append=1)
        assert set(there) <= {*served(answers, "as-found")}
