"""Masters that are none: one sentence, at once."""

from __future__ import annotations

import socket
import time

import pytest

from rmqtool.engine import EngineOptions, open_engine
from rmqtool.engine.spark_master import check_master
from rmqtool.errors import EnvironmentFailureError


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


@pytest.mark.parametrize("master", ["spark://host", "spark://h:x", "local-cluster[1,1,1024]", "nonsense"])
def test_what_is_no_address_is_left_to_spark(master: str) -> None:
    check_master(master, {}, {})
