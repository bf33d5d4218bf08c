"""A server's configuration that exists is sound, and what is wrong with one names its key."""

import tomllib
from typing import Any

import pytest

from lockgate.model.errors import UsageError
from lockgate.model.secret import Secret
from lockgate.model.server_config import (
    ServerConfig,
    fit_node_name,
    is_loopback,
    read_server_config,
    split_address,
)

LEAST = {"home": "lockgate-home", "node": "lg1"}
TLS = {"cert": "a.crt", "key": "a.key"}
COMMAND = {"command": ["/bin/true"]}
BOUNCER = {
    "admin": "postgres://admin:hunter2@127.0.0.1:6432/pgbouncer",
    "ini": "/etc/pgbouncer/databases.ini",
    "database": "shop",
    "source": "host=old password=hunter2",
    "target": "host=new password=hunter2",
}


def test_the_example_of_the_docstring_is_read() -> None:
    import lockgate.model.server_config as module

    text = str(module.__doc__).split("\n\n")[1:-1]
    config = read_server_config(tomllib.loads("\n".join(text)))
    assert config.spark.settings == {"spark.executor.memory": "4g"}
    assert config.tls.on
    assert config.lake.settings.drain_ms == 60_000


def test_little_must_be_said() -> None:
    config = read_server_config(LEAST)
    assert config.address == ("127.0.0.1", 8642)
    assert not config.metastore
    assert config.spark.master == "local[*]"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"home": ""}, "home"),
    ({"node": "Lg 1"}, "node"),
    ({"node": "-lg"}, "node"),
    ({"listen": "8642"}, "listen"),
    ({"listen": "::1:8642"}, "listen"),
    ({"listen": "localhost:99999"}, "listen"),
    ({"listen": "0.0.0.0:8642"}, "listen"),
    ({"lease_s": 0.1}, "lease_s"),
    ({"lease_s": "long"}, "lease_s"),
    ({"lake": {"drain_rows": 0}}, "lake.drain_rows"),
    ({"lake": {"workers": 1000}}, "lake.workers"),
    ({"lake": {"drain_every": 5}}, "lake.drain_every"),
    ({"log": "xml"}, "log"),
    ({"metastore": 7}, "metastore"),
    ({"port": 8642}, "port"),
    ({"tls": {"cert": "a.crt"}}, "tls.key"),
    ({"tls": {"key": "a.key"}}, "tls.cert"),
    ({"tls": {"ca": "ca.crt"}}, "tls.cert"),
    ({"tls": {**TLS, "cipher": "x"}}, "tls.cipher"),
    ({"advertise": "lg1.example:8642"}, "advertise"),
    ({"advertise": "http://lg1.example:8642", "tls": TLS}, "advertise"),
    ({"spark": {"master": ""}}, "spark.master"),
    ({"spark": {"driver_memory": "much"}}, "spark.driver_memory"),
    ({"spark": {"slots": -1}}, "spark.slots"),
    ({"spark": {"settings": {"spark.x": 1}}}, 'spark.settings."spark.x"'),
    ({"hooks": {"dns": {}}}, "hooks.dns"),
    ({"hooks": {"dns": {**COMMAND, "pgbouncer": BOUNCER}}}, "hooks.dns"),
    ({"hooks": {"dns": {"command": ["point-dns"]}}}, "hooks.dns.command"),
    ({"hooks": {"dns": {"command": "/bin/true"}}}, "hooks.dns.command"),
    ({"hooks": {"dns": {"command": ["/bin/true", "a\0b"]}}}, "hooks.dns.command"),
    ({"hooks": {"dns": {**COMMAND, "timeout_s": 0}}}, "hooks.dns.timeout_s"),
    ({"hooks": {"dns": {**COMMAND, "shell": True}}}, "hooks.dns.shell"),
    ({"hooks": {"D N": COMMAND}}, 'hooks."D N"'),
    ({"hooks": {"b": {"pgbouncer": {**BOUNCER, "ini": "a.ini"}}}}, "hooks.b.pgbouncer.ini"),
    ({"hooks": {"b": {"pgbouncer": {**BOUNCER, "admin": "db"}}}}, "hooks.b.pgbouncer.admin"),
    ({"hooks": {"b": {"pgbouncer": {**BOUNCER, "database": "a=b"}}}}, "hooks.b.pgbouncer.database"),
    (
        {"hooks": {"b": {"pgbouncer": {**BOUNCER, "target": "host=a\nb=c"}}}},
        "hooks.b.pgbouncer.target",
    ),
    ({"hooks": {"b": {"pgbouncer": {"ini": "/a.ini"}}}}, "hooks.b.pgbouncer.admin"),
]


@pytest.mark.parametrize(("change", "key"), WRONG, ids=str)
def test_what_is_wrong_names_its_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_server_config({**LEAST, **change})
    assert refused.value.object == key
    assert refused.value.hint


def test_other_machines_are_listened_to_with_tls() -> None:
    config = read_server_config({**LEAST, "listen": "0.0.0.0:8642", "tls": TLS})
    assert config.address == ("0.0.0.0", 8642)


def test_the_example_of_the_hooks_is_read() -> None:
    import lockgate.model.hook_config as module

    text = str(module.__doc__).split("\n\n")[1:-1]
    hooks = read_server_config(LEAST | tomllib.loads("\n".join(text))).hooks
    assert hooks["dns"].command == ("/usr/local/bin/point-dns", "shop")
    assert hooks["bouncer"].pgbouncer is not None


def test_a_password_of_a_hook_is_not_shown() -> None:
    config = read_server_config({**LEAST, "hooks": {"b": {"pgbouncer": BOUNCER}}})
    assert "hunter2" not in repr(config)
    assert [secret.reveal().count("hunter2") for secret in config.hooks["b"].secrets] == [1, 1, 1]


def test_a_password_of_the_metastore_is_not_shown() -> None:
    config = ServerConfig(
        home="h", node="n", metastore=Secret("postgresql://lg:hunter2@meta/lockgate")
    )
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("lg1", "lg1"),
        ("LG1.example.org", "lg1"),
        ("Ann's_MacBook-Pro.local", "ann-s-macbook-pro"),
        ("x" * 80, "x" * 40),
        ("a" * 39 + "-b", "a" * 39),
        ("...", "node"),
    ],
)
def test_a_machine_s_name_makes_a_node_s(host: str, name: str) -> None:
    assert fit_node_name(host) == name
    assert ServerConfig(home="h", node=name).node == name


def test_ipv6_stands_in_brackets() -> None:
    assert split_address("[::1]:8642") == ("::1", 8642)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1"])
def test_what_only_this_machine_reaches(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "127.0.0.1.evil.example", "::", ""])
def test_what_others_reach(host: str) -> None:
    assert not is_loopback(host)
