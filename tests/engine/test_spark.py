"""What only a Spark engine promises: retries, privacy, and a process that is as it was before."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rmqtool.engine import EngineError, EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.engine.spark_java import Java
from rmqtool.engine.spark_jobs import _pack, failure_of
from rmqtool.engine.spark_settings import driver_command, is_private, master_of, worker_python
from rmqtool.errors import EnvironmentFailureError, FileNotSharedError, RefusedError, RmqtoolError
from tests.engine import tasks

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.engine import Engine

RETRYING = "local[2,4]"


@pytest.mark.full
@pytest.mark.spark
class TestRunning:
    """With one shared session."""

    def test_a_task_that_fails_once_is_tried_again(self, spark_engine: Engine, tmp_path: Path) -> None:
        assert spark_engine.map(partial(tasks.fail_once, tmp_path), range(4)) == [0, 1, 2, 3]

    def test_executors_that_come_late_are_waited_for(
        self, spark_engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without one left, a failure that may be theirs waits for others; one of ours is final."""
        from py4j.protocol import Py4JJavaError
        from pyspark import RDD

        class NoneLeft(Py4JJavaError):  # type: ignore[misc] # py4j has no types
            def __init__(self, failure: RmqtoolError) -> None:
                report = f"due to node and executor excludeOnFailure.\n{_pack(failure)}\n"
                self.java_exception = SimpleNamespace(toString=lambda: report)

        failures: list[RmqtoolError] = [FileNotSharedError("x", "executor e does not see x")]
        collect = RDD.collect

        def fail_first(rdd: RDD[object]) -> object:
            if failures:
                raise NoneLeft(failures.pop())
            return collect(rdd)

        monkeypatch.setattr(RDD, "collect", fail_first)
        jobs = cast("Any", spark_engine)._jobs()
        monkeypatch.setattr(jobs, "_late_until", math.inf)
        assert spark_engine.map(tasks.square, [1, 2]) == [1, 4]
        failures = [RefusedError("x"), RefusedError("not x")]
        with pytest.raises(RefusedError, match=r"^not x$"):
            spark_engine.map(tasks.square, [1, 2])
        monkeypatch.setattr(jobs, "_late_until", 0.0)
        failures = [FileNotSharedError("x", "nobody sees x")]
        with pytest.raises(FileNotSharedError, match=r"^nobody sees x$"):
            spark_engine.map(tasks.square, [1, 2])

    def test_a_foreign_exception_keeps_its_remote_traceback(self, spark_engine: Engine) -> None:
        with pytest.raises(
            EngineError, match=r"^a task failed: ZeroDivisionError: division by zero$"
        ) as caught:
            spark_engine.map(tasks.divide_by, [0])
        assert "in divide_by" in caught.value.remote_traceback

    def test_a_worker_that_dies_is_told_in_one_sentence(self, spark_engine: Engine) -> None:
        with pytest.raises(EngineError, match=r"^a Python worker of Spark was killed[^\n]*$"):
            spark_engine.map(tasks.die, [1])

    @pytest.mark.parametrize("name", ["rmqtool.scan", "numpy", "numba"])
    def test_a_package_that_executors_lack_is_named(self, spark_engine: Engine, name: str) -> None:
        with pytest.raises(
            EnvironmentFailureError, match=f"^the Spark executors have no Python module {name}:"
        ):
            spark_engine.map(tasks.needs_missing_module, [name])

    def test_a_second_session_is_refused(self, spark_engine: Engine) -> None:
        assert spark_engine.map(tasks.square, [2]) == [4]
        with (
            open_engine(EngineOptions("spark")) as second,
            pytest.raises(EnvironmentFailureError, match="one at a time"),
        ):
            second.map(tasks.square, [2])
        assert spark_engine.map(tasks.square, [3]) == [9]


@pytest.mark.full
@pytest.mark.spark
def test_the_process_is_as_before_and_can_open_another(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a folder and a log of the user's, and one engine after the other."""
    log, scratch = tmp_path / "spark.log", tmp_path / ("a name too long for the path of a socket" * 2)
    scratch.mkdir()
    environment, path = dict(os.environ), list(sys.path)
    handler, root_handlers = signal.getsignal(signal.SIGINT), list(logging.getLogger().handlers)
    options = EngineOptions("spark", jobs=1, spark_conf={"spark.local.dir": str(scratch)}, log_file=log)
    for number in (3, 4):
        with open_engine(options) as engine:
            assert engine.map(tasks.square, [number]) == [number * number]
            assert [entry.name[:14] for entry in scratch.iterdir()] == ["rmqtool-spark-"]
            assert dict(os.environ) == environment
        assert list(scratch.iterdir()) == []
    assert sys.path == path
    assert signal.getsignal(signal.SIGINT) is handler
    assert logging.getLogger().handlers == root_handlers
    assert "spark" in log.read_text()
    assert capfd.readouterr() == ("", "")


@pytest.mark.full
@pytest.mark.spark
def test_a_progress_that_raises_closes_the_engine() -> None:
    def complain(completed: int) -> None:
        raise BrokenPipeError(f"nobody reads after {completed}")

    with open_engine(EngineOptions("spark", jobs=2)) as engine:
        with pytest.raises(BrokenPipeError):
            engine.map(tasks.slow_square, range(100), complain)
        with pytest.raises(EngineError, match="closed already"):
            engine.map(tasks.square, [1])


@pytest.mark.full
@pytest.mark.spark
def test_a_wrong_setting_is_told_in_one_sentence() -> None:
    with (
        open_engine(EngineOptions("spark", spark_conf={"spark.task.cpus": "many"})) as engine,
        pytest.raises(
            EnvironmentFailureError, match=r"^Spark did not start \([^\n]*spark\.task\.cpus[^\n]*$"
        ),
    ):
        engine.map(tasks.square, [1])


@pytest.mark.parametrize(
    ("master", "private"),
    [
        ("local", True),
        ("local[*]", True),
        (RETRYING, True),
        ("local-cluster[1,1,1024]", False),
        ("spark://h:7077", False),
    ],
)
def test_only_executors_in_the_drivers_process_are_private(master: str, private: bool) -> None:
    assert is_private(master) is private


@pytest.mark.spark
def test_the_users_settings_win_except_over_privacy(tmp_path: Path) -> None:
    user = {
        "spark.app.name": "mine",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-Da='b c'",
    }
    command = driver_command(
        EngineOptions("spark", jobs=3, spark_conf=user), Java(tmp_path, "test"), tmp_path
    )
    told = {"spark.app.name=mine", "spark.driver.bindAddress=127.0.0.1", "spark.master=local[3]"}
    assert {f"-D{one}" for one in told} | {"-Xmx2g", "-Da=b c"} < set(command.arguments)
    resolved = EngineOptions("spark", jobs=3, spark_conf=user | {"spark.jars.packages": "a:b:1"})
    submitted = driver_command(resolved, Java(tmp_path, "test"), tmp_path).arguments
    assert told | {"spark.jars.packages=a:b:1", "org.apache.spark.deploy.SparkSubmit"} < set(submitted)


@pytest.mark.spark
def test_another_sparks_variables_do_not_reach_a_private_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/elsewhere")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    environment = driver_command(EngineOptions("spark"), Java(tmp_path, "test"), tmp_path).environment
    assert environment.keys().isdisjoint({"SPARK_LOCAL_DIRS", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME"})
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_a_cluster_is_reached_through_the_users_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    options = EngineOptions("spark", jobs=6, master="spark://host:7077")
    command = driver_command(options, Java(tmp_path, "test"), tmp_path)
    assert command.arguments[0] == "/opt/spark/bin/spark-submit"
    assert {"spark.master=spark://host:7077", "spark.cores.max=6"} < set(command.arguments)
    assert command.environment["JAVA_HOME"] == str(tmp_path)


def test_the_python_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/env/python")
    named = {"spark.pyspark.python": "/named/python"}
    assert worker_python(EngineOptions("spark", spark_conf=named)) == sys.executable
    assert worker_python(EngineOptions("spark", master="yarn")) == "/env/python"
    assert worker_python(EngineOptions("spark", master="yarn", spark_conf=named)) == "/named/python"


def test_the_master_may_come_with_the_settings() -> None:
    conf = {"spark.master": "yarn"}
    assert master_of(EngineOptions("spark", spark_conf=conf)) == "yarn"
    assert master_of(EngineOptions("spark", spark_conf=conf, master="local")) == "local"


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (
            "x\nModuleNotFoundError: No module named 'rmqtool'\n",
            "the Spark executors have no Python module rmqtool",
        ),
        ('org.E: Cannot run program "/no/python": error=2', "the executors cannot run this Python"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has", "the executors cannot run this Python"),
        (
            "org.E: Job aborted\n at x\nCaused by: java.io.IOException: full",
            "Spark failed: Caused by: .*full",
        ),
        (
            "Cannot call methods on a stopped SparkContext.\n x",
            "Spark's master does not answer or ended the application",
        ),
        (
            "org.E: Job aborted due to stage failure: \nAborting TaskSet 3.0 because task 0 (partition 0)\n"
            "cannot run anywhere due to node and executor excludeOnFailure.\nMost recent failure:\nnull\n",
            "Spark has no executor left for a task",
        ),
        (
            "org.E: Job aborted due to stage failure: \nTask 3 was lost\n\tat x",
            "Spark failed: org.E: Job aborted due to stage failure: Task 3 was lost$",
        ),
        ("", "Spark failed: no reason given"),
    ],
)
def test_sparks_own_failures_become_one_sentence(report: str, sentence: str) -> None:
    error = failure_of(report)
    assert str(error).partition("\n")[0] == str(error)
    with pytest.raises((EngineError, EnvironmentFailureError), match=f"^{sentence}"):
        raise error
