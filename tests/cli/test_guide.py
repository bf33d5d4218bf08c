"""The guide to the commands leaves none out, and its examples are no fiction."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer.main

from lockgate.cli.main import app
from lockgate.model.server_config import read_server_config

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "commands.md").read_text("utf-8")


def tree() -> dict[str, typer.main.TyperCommand]:
    """Every command by its words."""
    found = {}

    def walk(words: str, command: object) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found[words] = command
        else:
            for name, child in inner.items():
                walk(f"{words} {name}", child)

    walk("lockgate", typer.main.get_command(app))
    return found


COMMANDS = tree()


@pytest.mark.parametrize("words", COMMANDS)
def test_it_has_an_example_of_every_command(words: str) -> None:
    assert words in GUIDE


def examples() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [re.sub(r"\s+(#.*|&.*)$", "", line) for line in lines if line.startswith("lockgate ")]


@pytest.mark.parametrize("example", examples())
def test_every_option_of_an_example_is_there(example: str) -> None:
    words = shlex.split(example)
    name = next(" ".join(words[:size]) for size in (3, 2) if " ".join(words[:size]) in COMMANDS)
    known = {option for param in COMMANDS[name].params for option in param.opts}
    known |= {option for param in COMMANDS[name].params for option in param.secondary_opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL))
def test_its_json_is_json(block: str) -> None:
    assert json.loads(block)


def test_its_server_configuration_is_one() -> None:
    [block] = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    assert read_server_config(tomllib.loads(block)).tls.on
