"""What is wrong with a configuration is said with the file, the line and the key."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.served import Served

SHOP = """\
source = "shop"
target = "copy"
tables = [
    "public.*",
]
"""


def errors(stderr: str) -> tuple[str, str]:
    first, second = stderr.splitlines()
    assert second.startswith("hint: ")
    return first, second


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            SHOP + "\n\nwal_warn_bytes = 12\n",
            "wal_warn_bytes: a number is out of range (shop.toml, line 8)",
        ),
        (SHOP + "tabels = []\n", "tabels: there is no such key (shop.toml, line 6)"),
        (SHOP + 'copy = "yes"\n', "copy: expected `bool`, got `str` (shop.toml, line 6)"),
        (
            SHOP.replace('"public.*"', "7"),
            "tables[0]: expected `str`, got `int` (shop.toml, line 4)",
        ),
        (
            SHOP + '[masks]\n"public.users.email" = "md5"\n',
            "masks.\"public.users.email\": invalid enum value 'md5' (shop.toml, line 7)",
        ),
        ('source = "shop"\n', "target: a key is missing (shop.toml)"),
        (SHOP + "copy = yes\n", "this is not TOML: Invalid value (shop.toml, line 6)"),
        ('source = "shop\n', "this is not TOML: Illegal character '\\n' (shop.toml, line 1)"),
        ("tables = [\n", "this is not TOML: Invalid value (shop.toml, line 2)"),
    ],
)
def test_of_a_feed(text: str, error: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(text)
    done = run("feed create shop --config shop.toml")
    assert done.code == 2
    assert errors(done.err)[0] == f"error: {error}"


def test_a_feed_s_run_says_the_same(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(SHOP + "chunk_rows = 0\n")
    done = run("feed run shop --config shop.toml")
    assert done.code == 2
    assert errors(done.err)[0] == "error: chunk_rows: a number is out of range (shop.toml, line 6)"


def test_what_an_option_said_is_blamed_on_the_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(SHOP)
    done = run("feed create shop --config shop.toml --tables orders")
    assert done.code == 2
    assert errors(done.err)[0].endswith("(--tables)")


def test_without_a_file_the_missing_option_is_named(run: Run) -> None:
    done = run("feed create shop --from shop --tables public.*")
    assert done.code == 2
    assert errors(done.err)[0] == "error: a key is missing (--to)"


def test_a_missing_key_may_be_given_as_an_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('source = "shop"\ntables = ["public.*"]\n')
    done = run("feed create shop --config shop.toml")
    assert errors(done.err)[1].endswith("or give --to")


def test_what_the_server_refuses_is_found_in_the_file_too(
    run: Run, tmp_path: Path, served: Served
) -> None:
    (tmp_path / "shop.toml").write_text(SHOP.replace("public.*", "nowhere.*"))
    done = run("feed create shop --config shop.toml")
    assert done.code == 2
    assert errors(done.err)[0] == "error: tables: no table matches (shop.toml, line 3)"


def test_a_file_that_is_not_there(run: Run) -> None:
    done = run("feed create shop --config nowhere.toml")
    assert done.code == 2
    assert "nowhere.toml" in done.err


def test_json_names_the_place_as_the_object(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(SHOP + "chunk_rows = 0\n")
    document = run("feed create shop --config shop.toml --json").document
    assert document["error"]["object"] == "shop.toml, line 6"


# --- of a server ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('lease_s = "long"\n', "lease_s: expected `float`, got `str` (lg.toml, line 1)"),
        ("\nport = 1\n", "port: there is no such key (lg.toml, line 2)"),
        (
            '[spark]\nmaster = "local[*]"\ndriver_memory = "much"\n',
            "spark.driver_memory: 'much' is no amount of memory (lg.toml, line 3)",
        ),
        (
            '[spark.settings]\n"spark.x" = 1\n',
            'spark.settings."spark.x": expected `str`, got `int` (lg.toml, line 2)',
        ),
        ('[tls]\ncert = "a"\n', "tls.key: a key is missing (lg.toml, line 1)"),
        ("home = \n", "this is not TOML: Invalid value (lg.toml, line 1)"),
    ],
)
def test_of_a_server(text: str, error: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "lg.toml").write_text(text)
    done = run("server --config lg.toml --check")
    assert done.code == 2
    assert errors(done.err)[0] == f"error: {error}"


def test_a_server_s_option_is_blamed_by_its_name(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lg.toml").write_text("lease_s = 10\n")
    done = run("server --config lg.toml --lease 0 --check")
    assert errors(done.err)[0] == "error: a number is out of range (--lease)"


def test_half_of_tls_names_the_option_that_is_missing(run: Run) -> None:
    done = run("server --tls-cert a.crt --check")
    assert errors(done.err)[0] == "error: a key is missing (--tls-key)"
