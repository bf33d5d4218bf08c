"""Where the node is and what opens it: arguments, then the environment, then the home."""

from pathlib import Path

import pytest

from lockgate.client.place import find
from lockgate.model.errors import Terminal, UsageError
from lockgate.model.secret import Secret


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("of-the-home\n")
    return tmp_path


def test_the_address_has_a_default(tmp_path: Path) -> None:
    place = find(home=tmp_path, environ={})
    assert (place.url, place.local) == ("http://127.0.0.1:8642", True)


def test_the_environment_names_the_address(tmp_path: Path) -> None:
    place = find(home=tmp_path, environ={"LOCKGATE_URL": "https://lg1.example:8642/"})
    assert (place.url, place.local) == ("https://lg1.example:8642", False)


def test_an_argument_goes_before_the_environment(tmp_path: Path) -> None:
    env = {"LOCKGATE_URL": "http://127.0.0.1:1", "LOCKGATE_TOKEN": "of-the-environment"}
    place = find("http://localhost:2", "of-the-argument", tmp_path, environ=env)
    assert (place.url, place.token) == ("http://localhost:2", Secret("of-the-argument"))


def test_the_token_is_found_in_the_home(home: Path) -> None:
    assert find(home=home, environ={}).token == Secret("of-the-home")


def test_the_home_is_found_in_the_environment(home: Path) -> None:
    assert find(environ={"LOCKGATE_HOME": str(home)}).token == Secret("of-the-home")


def test_the_home_is_the_one_that_a_server_takes_where_it_is_started(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.parent)
    home.rename(home.parent / "lockgate-home")
    assert find(environ={}).token == Secret("of-the-home")


def test_the_environment_s_token_goes_before_the_home_s(home: Path) -> None:
    found = find(home=home, environ={"LOCKGATE_TOKEN": "of-the-environment"})
    assert found.token == Secret("of-the-environment")


def test_no_token_is_no_error(tmp_path: Path) -> None:
    assert not find(home=tmp_path / "nowhere", environ={}).token


def test_a_token_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    with pytest.raises(Terminal, match="cannot be read") as refused:
        find(home=tmp_path, environ={})
    assert "LOCKGATE_TOKEN" in refused.value.hint


@pytest.mark.parametrize("token", ["two words", "ünïcode", "line\nbreak"])
def test_what_is_no_token_is_not_sent(token: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        find(token=token, home=tmp_path, environ={})
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["lg1:8642", "ftp://lg1", "http://", "http://h:port", "http://me:pw@h", "http://h/?q=1"]
)
def test_what_is_no_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        find(url, home=tmp_path, environ={})
    assert "pw" not in str(refused.value)


def test_a_token_does_not_travel_in_the_clear(home: Path) -> None:
    with pytest.raises(UsageError, match="in the clear"):
        find("http://lg1.example:8642", home=home, environ={})


def test_without_a_token_nothing_is_given_away(tmp_path: Path) -> None:
    assert find("http://lg1.example:8642", home=tmp_path, environ={}).url
