"""The Spark session as a process: quiet, bounded, and gone when we are."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lockgate.model.errors import Terminal
from lockgate.pipeline.java import JavaMissing, check_java
from lockgate.pipeline.session import SparkDidNotStart, SparkOptions, start
from lockgate.pipeline.shipping import package_zip
from tests.support.spark import ROOT
from tests.support.waiting import until


def _java(directory: Path, says: str, code: int = 0) -> Path:
    (directory / "bin").mkdir()
    java = directory / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("says", "code", "why"),
    [
        ('openjdk version "11.0.2" 2019-01-15', 0, "Spark needs Java 17, and this is 11"),
        ('java version "1.8.0_292"', 0, "Spark needs Java 17, and this is 8"),
        ("Segmentation fault", 139, "does not run"),
    ],
)
def test_a_java_that_will_not_do_is_named_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int, why: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path, says, code)))
    with pytest.raises(JavaMissing, match=why) as found:
        check_java()
    assert "openjdk-17-jre-headless" in found.value.hint


def test_no_java_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="there is none"):
        start(SparkOptions())


def test_a_newer_java_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path, 'openjdk version "21" 2023-09-19')))
    assert check_java() == 21


def test_a_connect_server_that_is_not_there_is_an_error_without_its_token() -> None:
    options = SparkOptions("sc://127.0.0.1:1/;token=planted-secret")
    with pytest.raises(SparkDidNotStart) as found:
        start(options)
    assert isinstance(found.value, Terminal)
    assert "sc://127.0.0.1:1" in str(found.value)
    assert "planted-secret" not in f"{found.value} {found.value.hint}"


def test_the_package_is_shipped_whole(tmp_path: Path) -> None:
    """What a task imports is importable from the zip alone."""
    path = package_zip(tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1]); import lockgate.pipeline.apply, "
            "lockgate.endpoints.postgres.copy.task as t; print(t.__file__)",
            str(path),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip().startswith(str(path))


def test_another_version_is_shipped_under_another_name(tmp_path: Path) -> None:
    """A Connect server in local mode refuses a second file of a name that it knows."""
    (tmp_path / "one.py").write_text("x = 1")
    first, same = package_zip(tmp_path, tmp_path).name, package_zip(tmp_path, tmp_path).name
    (tmp_path / "one.py").write_text("x = 2")
    assert first == same
    assert package_zip(tmp_path, tmp_path).name != first


_PROGRAM = textwrap.dedent(
    """
    import signal, sys
    from pathlib import Path
    from lockgate.pipeline.session import SparkOptions, start
    from lockgate.pipeline.jobs import run_tasks

    before = signal.getsignal(signal.SIGINT)
    spark = start(SparkOptions("local[1]"))
    assert signal.getsignal(signal.SIGINT) is before
    assert run_tasks(spark, "echo", [b"hello"], "t") == [b"hello"]
    pid, directory = spark._process.pid, spark._directory
    Path(sys.argv[1]).write_text(f"{pid} {directory}")
    if sys.argv[2] == "wait":
        signal.pause()
    spark.stop()
    assert not spark.running
    assert not directory.exists()
    assert not Path(f"/proc/{pid}").exists()
    """
)


@pytest.mark.slow
def test_spark_says_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    program = [sys.executable, "-c", _PROGRAM, str(tmp_path / "pid"), "stop"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_spark_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(told), "wait"], cwd=ROOT)
    try:
        until(lambda: told.exists() and told.read_text().count(" "), 240)
        pid = int(told.read_text().split()[0])
        assert Path(f"/proc/{pid}").exists()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    until(lambda: not _runs(pid), 60)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    return state != "Z"
