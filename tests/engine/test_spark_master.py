"""Masters that are none, or not there: one sentence, at once."""

from __future__ import annotations

import socket
import time

import pytest

from rmqtool.cli import main
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.engine.spark_settings import check_form, check_master
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from tests.store.fixture_stores import fixture


@pytest.fixture
def dead_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.spark
def test_a_dead_port_is_told_within_seconds(dead_port: int) -> None:
    """Nothing listens there when the socket is closed again, nor while it was open."""
    master = f"spark://127.0.0.1:{dead_port}"
    start = time.monotonic()
    told = rf"^no Spark master answers at {master} \(127\.0\.0\.1:{dead_port}: Connection refused\): [^\n]+$"
    with pytest.raises(EnvironmentFailureError, match=told):
        open_engine(EngineOptions("spark", master=master))
    assert time.monotonic() - start < 30


def test_an_unknown_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(address: tuple[str, int], timeout: float) -> None:
        raise socket.gaierror(-2, f"{address} {timeout}")

    monkeypatch.setattr(socket, "create_connection", unknown)
    with pytest.raises(EnvironmentFailureError, match=r"\(no host has the name nowhere\): "):
        check_master("spark://nowhere:7077", {}, {})


def test_a_silent_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(address: tuple[str, int], timeout: float) -> None:
        raise TimeoutError(address, timeout)

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(EnvironmentFailureError, match=r"\(far:7077 is silent for 5 s\): "):
        check_master("spark://far:7077", {}, {})


def test_one_master_of_several_is_enough(dead_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{dead_port},127.0.0.1:{server.getsockname()[1]}", {}, {})
        with pytest.raises(EnvironmentFailureError, match="no Spark master"):
            check_master(f"spark://127.0.0.1:{dead_port},127.0.0.1:{dead_port}", {}, {})


def test_what_yarn_and_kubernetes_need_is_said() -> None:
    with pytest.raises(
        EnvironmentFailureError, match=r"^--master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: "
    ):
        check_master("yarn", {}, {"HADOOP_CONF_DIR": ""})
    check_master("yarn", {}, {"YARN_CONF_DIR": "/etc/hadoop"})
    image = "spark.kubernetes.container.image"
    with pytest.raises(EnvironmentFailureError, match=rf"^--master k8s://a needs --spark-conf {image}=IMA"):
        check_master("k8s://a", {}, {})
    check_master("k8s://a", {image: "ours"}, {})


NO_MASTER = (
    "is not a master; give local[N] with N from 1 on, spark://HOST:PORT (HOST in letters, digits, hyphens and"
    " dots), yarn, k8s://… or sc://…, or leave it out"
)


@pytest.mark.parametrize(
    "master",
    [
        *("spark://127.0.0.1", "spark://[::1]", "spark://h:", "spark://h:x", "spark://h:7077/", "spark://"),
        *("spark://:7077", "spark://a:7077,b", "spark://my_master:7077", "local[0]", "local[x]", "local[]"),
        *("local[2,0]", "local[99999999999]", "", "foo", "localhost", "127.0.0.1:7077", "mesos://a:1"),
        *("yarn-client", "k8s://", "sc://", "local-cluster[1,1]"),
    ],
)
def test_what_is_no_master_is_refused(master: str) -> None:
    named = master or "''"
    with pytest.raises(UsageError) as caught:
        check_form(EngineOptions("spark", master=master))
    assert str(caught.value) == f"--master {named}: {NO_MASTER}"
    with pytest.raises(UsageError) as caught:
        check_form(EngineOptions("spark", spark_conf={"spark.master": master}))
    assert str(caught.value) == f"--spark-conf spark.master={master}: {NO_MASTER}"


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[1]", "local[*]", "local[08]", "local[2,4]", "local[* , 4]"),
        *("local-cluster[2, 1, 1024]", "spark://h:7077"),
        *("spark://h-1.example.com:7077,10.0.0.2:7078,[::1]:7077", "yarn", "k8s://https://host:6443"),
        *("k8s://a", "sc://host", "sc://host:15002/;token=a"),
    ],
)
def test_what_spark_takes_is_left_to_it(master: str) -> None:
    check_form(EngineOptions("spark", master=master))


@pytest.mark.spark
@pytest.mark.parametrize("master", ["", "foo", "local[0]", "spark://127.0.0.1"])
def test_no_java_starts_for_what_is_no_master(
    master: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is a cluster's ``--scratch`` asked for."""
    monkeypatch.setattr("rmqtool.engine.spark.find_java", None)
    with pytest.raises(UsageError, match=r"^--master "):
        open_engine(EngineOptions("spark", master=master))
    store = str(fixture("plain-5.5.1"))
    assert main(["verify", store, "--engine", "spark", "--master", master]) == ExitStatus.USAGE
    assert f"--master {master or chr(39) * 2}: " in capsys.readouterr().err
