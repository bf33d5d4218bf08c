"""The shell completes commands by itself and names by asking the node, quick and silent."""

import os
import subprocess

import pytest

import lockgate
from tests.cli.test_cli import COMMAND
from tests.support.served import Served


def completed(words: str, **environ: str) -> tuple[list[str], str]:
    """What bash would be offered after these words, and what was said on stderr."""
    env = {
        **os.environ,
        "_LOCKGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        **environ,
    }
    done = subprocess.run(
        [COMMAND], capture_output=True, text=True, timeout=60, check=False, env=env
    )
    return done.stdout.split(), done.stderr


def test_commands_are_completed() -> None:
    assert completed("lockgate feed sp")[0] == ["spans", "span-move", "span-split", "span-merge"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("lockgate feed status ", ["shop"]),
        ("lockgate endpoint test c", ["copy"]),
        ("lockgate node drain ", ["a"]),
        ("lockgate feed create x --from sh", ["shop"]),
        ("lockgate feed resync shop public.o", ["public.orders"]),
        ("lockgate feed span-move shop s1 --node ", ["a"]),
        ("lockgate feed span-split shop ", ["s1", "s2", "s3"]),
        ("lockgate lake list ", ["lake"]),
        ("lockgate move switch ", ["orders"]),
        ("lockgate move create x --to c", ["copy"]),
        ("lockgate lake drain lake public.o", ["public.orders"]),
    ],
)
def test_names_are_completed(words: str, names: list[str], fed: Served) -> None:
    with lockgate.connect() as lg:
        lg.moves.create("orders", source="shop", target="copy", tables=["public.orders"])
    assert completed(words)[0] == names


def test_nobody_who_presses_tab_sees_an_error() -> None:
    offered, said = completed("lockgate feed status ", LOCKGATE_URL="http://127.0.0.1:9")
    assert (offered, said) == ([], "")
