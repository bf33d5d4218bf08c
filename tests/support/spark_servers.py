"""Spark's own servers, out of the pyspark wheel: a standalone cluster, and a Connect server.

And a program that uses one of them, in a process of its own, for a process has one Spark session:
`python -m tests.support.spark_servers MASTER ORDERS`; see `use`.
"""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyspark

from lockgate.endpoints.postgres.copy.survey import CopyOrder
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.pipeline.copy import CopyOutcome, copy_spans
from lockgate.pipeline.jobs import KINDS, Interrupted, interrupt, run_tasks
from lockgate.pipeline.session import SparkOptions, start
from tests.support.spark import ROOT, TEST_KINDS
from tests.support.waiting import until

_HOME: Final = Path(pyspark.__file__).parent
_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_START_S: Final = 240.0


@contextlib.contextmanager
def _server(directory: Path, name: str, says: str, *command: str) -> Iterator[re.Match[str]]:
    """Run one of Spark's programs until the end of the block; what it said when it was ready."""
    log = directory / f"{name}.log"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "700m",
        "SPARK_DAEMON_JAVA_OPTS": _JAVA,
        "SPARK_CONF_DIR": str(directory),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    (directory / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
        "appender.out.type = Console\nappender.out.name = out\nappender.out.target = SYSTEM_ERR\n"
        "appender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %m%n\n"
    )
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(_HOME / "bin" / command[0]), *command[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=directory,
        )

    def ready() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()[-3000:]
        return re.search(says, log.read_text())

    try:
        found = until(ready, _START_S, 0.1)
        assert found is not None
        yield found
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """A master and workers on loopback, a slot each; the master's URL."""
    package = "org.apache.spark.deploy"
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(
            _server(
                directory,
                "master",
                r"Starting Spark master at (spark://\S+)",
                *("spark-class", f"{package}.master.Master"),
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            )
        )
        for number in range(workers):
            stack.enter_context(
                _server(
                    directory,
                    f"worker{number}",
                    "Successfully registered with master",
                    *("spark-class", f"{package}.worker.Worker", "--host", "127.0.0.1"),
                    *("--cores", "1", "--memory", "700m", "--webui-port", "0"),
                    *("--work-dir", str(directory / f"work{number}"), master[1]),
                )
            )
        yield master[1]


@contextlib.contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """A Spark Connect server with two slots of its own, its events logged; its URL."""
    events = directory / "events"
    events.mkdir()
    with _server(
        directory,
        "connect",
        r"Spark Connect server started at: \S+:(\d+)",
        *("spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--driver-java-options", _JAVA),
        *("--conf", "spark.connect.grpc.binding.port=0", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false"),
        *("--conf", f"spark.eventLog.dir={events.as_uri()}"),
        *("--conf", "spark.driver.bindAddress=127.0.0.1", "spark-internal"),
    ) as found:
        yield f"sc://127.0.0.1:{found[1]}"


# --- a process that uses one ----------------------------------------------------------------------


class Errand(msgspec.Struct):
    """What the process is to copy."""

    feed: str
    source: str
    target: str
    orders: list[CopyOrder]
    mark: str
    """A file that a task makes to say that it runs."""


class Errands(msgspec.Struct):
    """What came of it."""

    homes: list[str]
    """For each of some tasks: where its Lockgate is, and the number of its worker's parent."""
    interrupted: bool
    outcomes: list[CopyOutcome]


def use(master: str, errand: Errand, directory: Path) -> Errands:
    """Have another process run tasks there, stop some, and copy tables."""
    (directory / "errand").write_bytes(msgspec.json.encode(errand))
    done = subprocess.run(
        [sys.executable, "-m", __name__, master, str(directory / "errand")],
        capture_output=True,
        check=False,
        cwd=ROOT,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return msgspec.json.decode(done.stdout, type=Errands)


def _main(master: str, path: str) -> None:
    errand = msgspec.json.decode(Path(path).read_bytes(), type=Errand)
    KINDS.update(TEST_KINDS)
    settings = (
        {}
        if master.startswith("sc://")
        else {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "600m",
            "spark.executor.extraJavaOptions": _JAVA,
            # Both workers are there before the first task.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.cores.max": "2",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        }
    )
    with start(SparkOptions(master, slots=2, settings=settings)) as spark:
        homes = [home.decode() for home in run_tasks(spark, "test-home", [b""] * 4, "homes")]
        stopped: list[BaseException] = []

        def hold() -> None:
            try:
                run_tasks(spark, "test-hold", [errand.mark.encode()], "hold")
            except BaseException as error:
                stopped.append(error)

        thread = threading.Thread(target=hold)
        thread.start()
        until(Path(errand.mark).exists, 120)
        interrupt(spark, "hold")
        thread.join(60)
        outcomes = copy_spans(
            spark,
            errand.feed,
            PostgresUrl.parse(errand.source),
            PostgresUrl.parse(errand.target),
            errand.orders,
            "copy",
            chunk_rows=200,
        )
    done = Errands(homes, len(stopped) == 1 and isinstance(stopped[0], Interrupted), outcomes)
    sys.stdout.buffer.write(msgspec.json.encode(done))


if __name__ == "__main__":
    _main(*sys.argv[1:])
