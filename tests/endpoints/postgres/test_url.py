"""Addresses of PostgreSQL endpoints: what is understood, what is shown, what travels."""

import copy
import json
import logging
import pickle
import traceback
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.endpoints.secrets import resolve
from lockgate.model.errors import UsageError
from lockgate.model.secret import Secret


def parameters(text: str, **environ: str) -> dict[str, str]:
    return PostgresUrl.parse(text).parameters(environ)


# --- what is understood -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_all_parts_are_found(scheme: str) -> None:
    found = parameters(f"{scheme}://app:pw@db.example:6432/shop?sslmode=require&connect_timeout=3")
    assert found == {
        "host": "db.example",
        "port": "6432",
        "dbname": "shop",
        "user": "app",
        "password": "pw",
        "sslmode": "require",
        "connect_timeout": "3",
    }


def test_what_is_left_out_is_left_to_libpq() -> None:
    assert parameters("postgres://db/shop") == {"host": "db", "port": "5432", "dbname": "shop"}


def test_percent_encoding_is_undone() -> None:
    found = parameters("postgres://a%40b:p%3A%2F%25%C3%A4@db/sh%2Fop")
    assert (found["user"], found["password"], found["dbname"]) == ("a@b", "p:/%ä", "sh/op")


@pytest.mark.parametrize(
    ("text", "host", "label"),
    [
        ("postgres://[::1]:5433/d", "::1", "::1:5433/d"),
        ("postgres://u@[fe80::1%25eth0]/d", "fe80::1%eth0", "fe80::1%eth0:5432/d"),
        ("postgres://%2Frun%2Fpg/d", "/run/pg", "[/run/pg]:5432/d"),
        ("postgres:///d?host=/run/pg", "/run/pg", "[/run/pg]:5432/d"),
        ("postgres:///?host=db&dbname=d&port=9&user=u&password=pw", "db", "db:9/d"),
    ],
)
def test_hosts_of_every_kind(text: str, host: str, label: str) -> None:
    url = PostgresUrl.parse(text)
    assert url.parameters({})["host"] == host
    assert url.label == label
    assert PostgresUrl.parse(url.to_wire().decode()) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "db/shop",
        "mysql://db/shop",
        "postgres://db",
        "postgres:///shop",
        "postgres://u:hunter2@db/shop/more",
        "postgres://u:hunter2@ss@db/shop",
        "postgres://u:hunt/er2@db/shop",
        "postgres://u:hunter2@one,two/shop",
        "postgres://u:hunter2@db:port/shop",
        "postgres://u:hunter2@db:0/shop",
        "postgres://u:hunter2@db:70000/shop",
        "postgres://u:hunter2@db/shop?sslmode",
        "postgres://u:hunter2@db/shop?sslmode=sometimes",
        "postgres://u:hunter2@db/shop?sslmode=require&sslmode=disable",
        "postgres://u:hunter2@db/shop?password=hunter2",
        "postgres://u:hunter2@db/shop?application_name=me",
        "postgres://u:hunter2@db/shop?ssl=true",
        "postgres://u:%ffhunter2@db/shop",
        "postgres://u:${vault:hunter2}@db/shop",
        "postgres://u:hunter2\0@db/shop",
        "postgres://u:%00hunter2@db/shop",
    ],
)
def test_what_is_no_address_is_refused_and_quoted_nowhere(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        PostgresUrl.parse(text).parameters({})
    assert caught.value.hint
    assert "hunt" not in "".join(traceback.format_exception(caught.value))


# --- references ---------------------------------------------------------------------------------


def test_references_stand_in_any_part(tmp_path: Path) -> None:
    secret = tmp_path / "pw with: odd@name"
    secret.write_text("p@ss:/word%41\n")
    text = (
        "postgres://${env:U}:${file:" + str(secret) + "}@${env:H}.example:${env:P}"
        "/${env:D}?sslrootcert=${env:CA}&sslmode=${env:MODE}"
    )
    url = PostgresUrl.parse(text)
    environ = {"U": "app", "H": "db", "P": "6432", "D": "shop", "CA": "/ca", "MODE": "verify-full"}
    assert url.parameters(environ) == {
        "host": "db.example",
        "port": "6432",
        "dbname": "shop",
        "user": "app",
        "password": "p@ss:/word%41",
        "sslrootcert": "/ca",
        "sslmode": "verify-full",
    }
    assert "p@ss" not in url.text + url.to_wire().decode()
    assert "${env:H}" in url.label
    assert PostgresUrl.from_wire(url.to_wire()) == url


def test_a_reference_is_looked_up_each_time_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    url = PostgresUrl.parse("postgres://u:${env:SHOP_PW}@db/shop")
    for password in ("old", "new"):
        monkeypatch.setenv("SHOP_PW", password)
        assert url.parameters()["password"] == password


def test_an_encoded_dollar_begins_no_reference() -> None:
    url = PostgresUrl.parse("postgres://u:%24%7Benv:HOME%7D@db/shop")
    assert url.parameters({"HOME": "/root"})["password"] == "${env:HOME}"
    assert PostgresUrl.from_wire(url.to_wire()) == url
    assert "HOME" not in url.text


@pytest.mark.parametrize(
    "reference", ["${env:NOT_THERE}", "${file:/not/there}", "${file:/dev/zero}"]
)
def test_a_reference_to_nothing_names_itself(reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        parameters(f"postgres://u:{reference}@db/shop")
    assert caught.value.object == reference


def test_a_secret_that_is_no_text_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(b"hunter2\xff")
    with pytest.raises(UsageError) as caught:
        resolve("${file:" + str(tmp_path / "pw") + "}")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_port_from_a_reference_is_checked_too() -> None:
    with pytest.raises(UsageError, match="port"):
        parameters("postgres://db:${env:P}/shop", P="5432 host=elsewhere")


# --- what is shown, what travels ----------------------------------------------------------------


SHOWN = "postgres://app:hunter2@db/shop?sslpassword=hunter2"


@pytest.mark.parametrize("show", [str, repr, lambda url: f"{url} {url!r} {url.text} {url.label}"])
def test_the_password_is_never_shown(show: object) -> None:
    assert callable(show)
    assert "hunter2" not in show(PostgresUrl.parse(SHOWN))


def test_other_ways_out_show_nothing_either(caplog: pytest.LogCaptureFixture) -> None:
    url = PostgresUrl.parse(SHOWN)
    logging.getLogger("x").error("%s %r", url, [url])
    assert "hunter2" not in caplog.text
    assert b"hunter2" not in msgspec.json.encode(url, enc_hook=str)
    assert "hunter2" not in json.dumps(url, default=str)
    assert copy.deepcopy(url) == url
    with pytest.raises(TypeError):
        pickle.dumps(url)
    with pytest.raises(AttributeError):
        url.host = "elsewhere"  # type: ignore[misc]


def test_a_literal_password_travels_to_who_must_connect() -> None:
    url = PostgresUrl.parse(SHOWN)
    there = PostgresUrl.from_wire(url.to_wire())
    assert there == url
    assert there.parameters({})["password"] == "hunter2"
    assert there.parameters({})["sslpassword"] == "hunter2"


def test_an_address_is_parsed_from_a_secret_and_from_itself() -> None:
    url = PostgresUrl.parse(SHOWN)
    assert PostgresUrl.parse(Secret(SHOWN)) == url
    assert PostgresUrl.parse(url) is url


ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(user=ANY, password=ANY, database=ANY, ca=ANY)
def test_any_text_comes_through_when_encoded(
    user: str, password: str, database: str, ca: str
) -> None:
    text = "postgres://{}:{}@db/{}?sslrootcert={}".format(
        *(quote(part, safe="") for part in (user, password, database, ca))
    )
    url = PostgresUrl.from_wire(PostgresUrl.parse(text).to_wire())
    found = url.parameters({})
    assert [found[name] for name in ("user", "password", "dbname", "sslrootcert")] == [
        user,
        password,
        database,
        ca,
    ]
    assert url.text == PostgresUrl.parse(text).text
