"""What a feed is asked to do: what is understood, what is refused, and that secrets stay so."""

import tomllib
import traceback
from typing import Any

import msgspec
import pytest

import lockgate.model.feed_config as module
from lockgate.model.errors import UsageError
from lockgate.model.feed_config import (
    FeedConfig,
    Mask,
    MaskKind,
    config_from_json,
    read_config,
)
from lockgate.model.secret import Secret

LEAST: dict[str, Any] = {
    "name": "shop",
    "source": "postgres://app:hunter2@db/shop",
    "target": "postgres://app:${env:PW}@copy/shop",
    "tables": ["public.*"],
}


def refused(**changes: Any) -> UsageError:
    document = {key: value for key, value in (LEAST | changes).items() if value is not ...}
    with pytest.raises(UsageError) as caught:
        read_config(document)
    assert caught.value.hint
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    return caught.value


def test_the_example_of_the_documentation_is_a_configuration() -> None:
    text = (module.__doc__ or "").partition("\n\n")[2]
    example = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    config = read_config(tomllib.loads(example))
    assert config.tables == ("public.*", "!public.audit_*")
    assert config.masks_by_pattern() == {
        "public.users.email": Mask(MaskKind.HASH),
        "public.users.phone": Mask(MaskKind.NULL),
        "public.users.name": Mask(MaskKind.FIXED, "somebody"),
    }
    assert config.rename == {"public": "shop", "public.orders": "sales.orders"}
    assert config.copy


def test_a_few_lines_are_enough() -> None:
    config = read_config(LEAST)
    assert config.source == Secret(LEAST["source"])
    assert config.wal_warn_bytes < config.wal_stop_bytes
    assert config.masks == config.rows == config.rename == {}


def test_a_configuration_comes_back_from_the_metastore_as_it_was() -> None:
    config = read_config(
        LEAST | {"masks": {"a.b.c": {"fixed": "x"}, "a.b.d": "null"}, "copy": False}
    )
    assert config_from_json(config.to_json()) == config
    assert b"hunter2" in config.to_json()


def test_no_secret_is_shown() -> None:
    config = read_config(LEAST)
    assert "hunter2" not in f"{config} {config!r}"
    assert b"hunter2" not in msgspec.json.encode(config, enc_hook=str)
    with pytest.raises(TypeError):
        msgspec.json.encode(config)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"name": ""}, "name"),
        ({"name": "Shop"}, "name"),
        ({"name": "9lives"}, "name"),
        ({"name": "shop; drop"}, "name"),
        ({"name": "s" * 41}, "name"),
        ({"name": 7}, "name"),
        ({"name": ...}, "name"),
        ({"source": ""}, "source"),
        ({"source": 5}, "source"),
        ({"target": ...}, "target"),
        ({"tables": []}, "tables"),
        ({"tables": ["!public.*"]}, "tables"),
        ({"tables": ["public.*", "orders"]}, "tables[1]"),
        ({"tables": ["lockgate.*"]}, "tables[0]"),
        ({"tables": "public.*"}, "tables"),
        ({"tabels": ["public.*"]}, "tabels"),
        ({"leave_out": ["public.users"]}, "leave_out[0]"),
        (
            {"leave_out": ["public.users.ssn"], "masks": {"public.users.ssn": "null"}},
            "leave_out[0]",
        ),
        ({"masks": {"public.users": "hash"}}, 'masks."public.users"'),
        ({"masks": {"a.b.c": "rot13"}}, 'masks."a.b.c"'),
        ({"masks": {"a.b.c": {"fixd": "x"}}}, 'masks."a.b.c".fixd'),
        ({"masks": {"a": {"b": {"c": "hash"}}}}, 'masks."a".b'),
        ({"rows": {"orders": "true"}}, 'rows."orders"'),
        ({"rows": {"!a.b": "true"}}, 'rows."!a.b"'),
        ({"rows": {"a.b": "  "}}, 'rows."a.b"'),
        ({"rows": {"a.b": "x\0"}}, 'rows."a.b"'),
        ({"rows": {"a.b": True}}, 'rows."a.b"'),
        ({"rename": {"public": "shop.orders"}}, 'rename."public"'),
        ({"rename": {"public.*": "shop.*"}}, 'rename."public.*"'),
        ({"rename": {"a.b.c": "a.b.d"}}, 'rename."a.b.c"'),
        ({"rename": {"public": "lockgate"}}, 'rename."public"'),
        ({"rename": {"public": "pg_x"}}, 'rename."public"'),
        ({"rename": {"a.b": "x.y", "a.c": "x.y"}}, 'rename."a.c"'),
        ({"rename": {"public": "ü" * 32}}, 'rename."public"'),
        ({"chunk_rows": 0}, "chunk_rows"),
        ({"chunk_rows": "many"}, "chunk_rows"),
        ({"copy": "no"}, "copy"),
        ({"flush_interval_ms": 0}, "flush_interval_ms"),
        ({"retention_s": -1}, "retention_s"),
        ({"decoding_memory_bytes": 1}, "decoding_memory_bytes"),
        ({"wal_warn_bytes": 2**40}, "wal_stop_bytes"),
    ],
)
def test_what_is_wrong_is_refused_with_its_key(changes: dict[str, Any], key: str) -> None:
    assert refused(**changes).object == key


def test_names_of_63_bytes_are_allowed_at_the_target() -> None:
    read_config(LEAST | {"rename": {"public.a": f"{'ü' * 31}x.{'t' * 63}"}})


def test_a_configuration_made_in_python_is_held_to_the_same() -> None:
    with pytest.raises(UsageError):
        FeedConfig(name="shop", source=Secret("a"), target=Secret("b"), tables=())


def test_a_stored_document_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError):
        config_from_json(b"[]")
