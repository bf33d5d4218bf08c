"""The one place that builds a Spark session.

    with start(SparkOptions()) as spark:            # local[*]
    with start(SparkOptions("spark://host:7077"))   # standalone; yarn, k8s://… alike
    with start(SparkOptions("sc://host:15002"))     # Spark Connect: no Java on this machine

With a master URL the driver is a Java process of ours: it ends when `stop()` is called, and
when this process ends in any other way (it watches a pipe that only we hold open). Nothing that it
says reaches our output: its log is a file, whose end is quoted when it does not start.

What is set here, and why:

- Python workers talk to Java over Unix sockets. Over TCP each task waits 40 ms for a delayed
  acknowledgement, which is most of a small job.
- `leafNodeDefaultParallelism` is out of reach, so a local table gets one partition per row:
  a row is a work item, and no shuffle has to spread them.
- The driver's Java compiles quickly, not thoroughly, and collects garbage in one thread: it hands
  work to Python and does little itself. Measured: half the time to start, half of it per small job.
  Whoever has it join tables appends `-XX:TieredStopAtLevel=4` (`spark.driver.extraJavaOptions`).
- What is kept of jobs that are over is little, for there are several in a second.
- A task that fails is not tried again by Spark in local mode; on a cluster it is, and that is
  harmless: every task checks the fence and its own receipt in the transaction that it commits.
"""

import atexit
import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urlsplit

import msgspec

from lockgate.model.errors import Terminal, UsageError
from lockgate.model.value import Value
from lockgate.pipeline.daemon import MODULE as DAEMON
from lockgate.pipeline.java import check_java
from lockgate.pipeline.shipping import package_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Spark", "SparkDidNotStart", "SparkOptions", "start"]

_SLOTS_REMOTE: Final = 8
"""Assumed of a Spark that cannot be asked how many tasks it runs at once."""

_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_STOP_TIMEOUT_S: Final = 20.0
_PROBE_S: Final = 10.0
_LOG_LINES: Final = 15

_LOG4J: Final = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {directory}/spark.log
appender.file.filePattern = {directory}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


class SparkDidNotStart(Terminal):
    """There is no Spark session, and why is in the hint."""

    code = "spark-did-not-start"


class SparkOptions(Value, frozen=True):
    """Which Spark to use. `settings` are Spark's own and win over Lockgate's."""

    master: str = "local[*]"
    """A master URL, or `sc://host:port` for Spark Connect."""
    name: str = "lockgate"
    python: str = ""
    """The interpreter of the tasks; empty: the one that runs us."""
    driver_memory: str = "1g"
    slots: int = 0
    """How many tasks run at once; 0: ask Spark."""
    ship: bool = True
    """Send Lockgate's code to executors that are not on this machine."""
    settings: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def is_connect(self) -> bool:
        """True when the driver runs elsewhere, behind a gRPC address."""
        return self.master.startswith("sc://")

    @property
    def is_local(self) -> bool:
        """True when driver and tasks run on this machine."""
        return self.master.startswith("local")

    @property
    def label(self) -> str:
        """The address without what follows it: a Connect URL may carry a token."""
        return self.master.split(";", maxsplit=1)[0]


class Spark:
    """A running session, and what has to be undone when it ends. Made by `start`."""

    def __init__(
        self,
        session: "SparkSession",
        options: SparkOptions,
        slots: int,
        process: "subprocess.Popen[bytes] | None" = None,
        directory: Path | None = None,
    ) -> None:
        self.session = session
        self.options = options
        self.slots = slots
        self._process = process
        self._directory = directory
        self._stopping = threading.Lock()
        self._stopped = False

    @property
    def running(self) -> bool:
        """False once stopped, and when the driver's Java process died."""
        return not self._stopped and (self._process is None or self._process.poll() is None)

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """The end of what the driver's Java process logged."""
        return _log_tail(self._directory, lines)

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """Jobs that this thread starts inside carry the tag, by which `cancel` finds them.

        A session's own tags are known to the thread that set them alone, except with Connect.
        """
        if self.options.is_connect:
            self.session.addTag(tag)
        else:
            context = self.session.sparkContext
            context.setInterruptOnCancel(True)
            context.addJobTag(tag)
        try:
            yield
        finally:
            # A driver that is gone has no tags; what went wrong inside is the better error.
            with contextlib.suppress(Exception):
                if self.options.is_connect:
                    self.session.removeTag(tag)
                else:
                    self.session.sparkContext.removeJobTag(tag)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs that carry the tag now; from any thread."""
        if self.options.is_connect:
            self.session.interruptTag(tag)
        else:
            self.session.sparkContext.cancelJobsWithTag(tag)

    def stop(self) -> None:
        """End the session, its tasks, and the Java process if it is ours. May be repeated."""
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            atexit.unregister(self.stop)
            with contextlib.suppress(Exception):  # a driver that died cannot say goodbye
                self.session.stop()
            if self._process is not None:
                _end_java(self._process)
            if self._directory is not None:
                shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start(options: SparkOptions | None = None) -> Spark:
    """A new session. A process has one with a master URL at a time: that is PySpark's limit."""
    options = options or SparkOptions()
    spark = _connect(options) if options.is_connect else _launch(options)
    atexit.register(spark.stop)
    return spark


# --- Spark Connect ------------------------------------------------------------------------------


def _connect(options: SparkOptions) -> Spark:
    try:
        # Not `pyspark.sql.SparkSession.builder.remote`, which turns the whole process remote.
        from pyspark.sql.connect.session import SparkSession as Remote
    except ImportError as error:
        raise SparkDidNotStart(
            "Spark Connect needs packages that are not installed",
            object_=options.label,
            hint="pip install 'lockgate[connect]'",
            cause=error,
        ) from error
    _probe(options)
    try:
        remote = Remote.builder.remote(options.master).create()
        settings = {**_runtime_settings(options.slots or _SLOTS_REMOTE), **options.settings}
        for name, value in settings.items():
            remote.conf.set(name, value)
        if options.ship:
            with tempfile.TemporaryDirectory(prefix="lockgate-spark-") as directory:
                remote.addArtifacts(str(package_zip(Path(directory))), pyfile=True)
    except Exception as error:
        raise SparkDidNotStart(
            "no session at the Spark Connect server",
            object_=options.label,
            hint="is it running, and of Spark 4.3? `sc://host:15002` is how it is written",
            cause=error,
        ) from error
    # Two classes without a common base, and the same methods as far as Lockgate goes.
    return Spark(cast("SparkSession", remote), options, options.slots or _SLOTS_REMOTE)


def _probe(options: SparkOptions) -> None:
    """Spark's client tries for ten minutes to reach a server that is not there."""
    where = urlsplit(options.label)
    try:
        with socket.create_connection((where.hostname, where.port or 15002), _PROBE_S):
            pass
    except (OSError, ValueError) as error:
        raise SparkDidNotStart(
            "no Spark Connect server answers",
            object_=options.label,
            hint="see that it runs and is reached under this address: sc://host:15002",
            cause=error,
        ) from error


# --- a driver of our own ------------------------------------------------------------------------

_launching = threading.Lock()


def _launch(options: SparkOptions) -> Spark:
    check_java()
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    with _launching:
        if SparkContext._active_spark_context is not None:
            raise UsageError(
                "this process already has a Spark session",
                object_=options.label,
                hint="stop() it first, or use it: one process has one",
            )
        directory = Path(tempfile.mkdtemp(prefix="lockgate-spark-"))
        (directory / "log4j2.properties").write_text(_LOG4J.format(directory=directory), "utf-8")
        conf = SparkConf(loadDefaults=False)
        for name, value in _settings(options, directory).items():
            conf.set(name, value)
        process: subprocess.Popen[bytes] | None = None
        try:
            with _surroundings(options), (directory / "java.log").open("wb") as log:
                gateway: Any = launch_gateway(  # type: ignore[no-untyped-call]
                    conf, {"stdout": log, "stderr": log}
                )
                process = gateway.proc
                context = SparkContext(conf=conf, gateway=gateway)
            session = SparkSession(context)
            if options.ship and not options.is_local:
                context.addPyFile(str(package_zip(directory)))
            slots = options.slots or context.defaultParallelism
            for name, value in _runtime_settings(slots).items():
                if name not in options.settings:
                    session.conf.set(name, value)
        except Exception as error:
            log_tail = _log_tail(directory, _LOG_LINES)
            if process is not None:
                _end_java(process)
            shutil.rmtree(directory, ignore_errors=True)
            raise SparkDidNotStart(
                "Spark did not start",
                object_=options.label,
                hint=f"its log ends with:\n{log_tail}" if log_tail else "is the address right?",
                cause=error,
            ) from error
    return Spark(session, options, slots, process, directory)


def _settings(options: SparkOptions, directory: Path) -> dict[str, str]:
    """What must be known before the driver's Java process starts."""
    given = dict(options.settings)
    java = f"{_JAVA} -Dlog4j2.configurationFile=file:{directory}/log4j2.properties"
    asked = given.pop("spark.driver.extraJavaOptions", "")
    settings = {
        "spark.master": options.master,
        "spark.app.name": options.name,
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": f"{java} {asked}".strip(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.python.task.killTimeout": "200ms",
        "spark.speculation": "false",
    }
    if options.is_local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Only we may enter the directory, so nobody else can speak to a worker.
            "spark.python.unix.domain.socket.dir": str(directory),
        }
        if not options.python:
            settings["spark.python.daemon.module"] = DAEMON
    return settings | given


def _runtime_settings(slots: int) -> dict[str, str]:
    """What a session may be told at any time, so that Connect takes it too."""
    return {
        "spark.sql.leafNodeDefaultParallelism": str(2**20),
        # Follows the one above unless it is set: files would be cut into slivers.
        "spark.sql.files.minPartitionNum": str(slots),
    }


@contextlib.contextmanager
def _surroundings(options: SparkOptions) -> Iterator[None]:
    """The tasks' interpreter in the environment, where PySpark looks; our SIGINT handler kept."""
    name = "PYSPARK_PYTHON"
    before = os.environ.get(name)
    on_main = threading.current_thread() is threading.main_thread()
    handler: Any = signal.getsignal(signal.SIGINT) if on_main else None
    # Says at INFO and above whatever a connection that closes has to say.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    os.environ[name] = options.python or sys.executable
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
        if on_main and handler is not None:
            signal.signal(signal.SIGINT, handler)


def _end_java(process: "subprocess.Popen[bytes]") -> None:
    """End the Java process, and make PySpark forget it: the next session gets a new one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # what it waits for
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _log_tail(directory: Path | None, lines: int) -> str:
    text = ""
    for name in ("java.log", "spark.log"):
        with contextlib.suppress(OSError):
            if directory is not None:
                text += (directory / name).read_text("utf-8", "replace")
    return "\n".join(text.splitlines()[-lines:])
