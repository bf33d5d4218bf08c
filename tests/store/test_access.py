"""Tokens: found by their digest, until they are removed or replaced."""

import pytest
import sqlalchemy as sa

from lockgate.model.errors import MetastoreUnreadable, UsageError
from lockgate.model.secret import Secret
from lockgate.model.tokens import AccessToken, Role, digest_of
from lockgate.store import tables
from lockgate.store.access import Tokens
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import Place

CI = AccessToken("ci", Role.VIEWER, digest_of(Secret("one")))


@pytest.fixture
def store(sql: Place) -> SqlMetastore:
    opened = sql.open()
    assert isinstance(opened, SqlMetastore)
    return opened


@pytest.fixture
def tokens(store: SqlMetastore) -> Tokens:
    return Tokens(store.transactions)


@pytest.mark.parametrize("role", Role)
def test_a_token_is_found_by_its_digest(tokens: Tokens, role: Role) -> None:
    token = AccessToken("ci", role, CI.digest)
    tokens.write(token)
    assert tokens.find(CI.digest) == token


@pytest.mark.parametrize("digest", ["", "c", CI.digest.upper(), CI.digest + "\0"])
def test_another_digest_opens_nothing(tokens: Tokens, digest: str) -> None:
    tokens.write(CI)
    assert tokens.find(digest) is None


def test_a_token_that_was_replaced_opens_nothing(tokens: Tokens) -> None:
    tokens.write(CI)
    new = AccessToken("ci", Role.ADMIN, digest_of(Secret("two")))
    tokens.write(new)
    assert tokens.find(CI.digest) is None
    assert tokens.find(new.digest) == new


def test_a_token_that_was_removed_opens_nothing(tokens: Tokens) -> None:
    tokens.write(CI)
    assert tokens.remove("ci")
    assert tokens.find(CI.digest) is None
    assert not tokens.remove("ci")


def test_tokens_come_by_name(tokens: Tokens) -> None:
    for name in ("b", "a", "c"):
        tokens.write(AccessToken(name, Role.OPERATOR, f"digest of {name}"))
    assert [token.name for token in tokens.all()] == ["a", "b", "c"]


def test_a_name_that_no_database_holds_is_wrong_usage(tokens: Tokens) -> None:
    assert not tokens.remove("a\0b")
    with pytest.raises(UsageError):
        tokens.write(AccessToken("a\0b", Role.VIEWER, "d"))


def test_a_role_that_nobody_knows_opens_nothing(store: SqlMetastore, tokens: Tokens) -> None:
    row = sa.insert(tables.tokens).values(name="x", role="emperor", digest="d")
    store.transactions.write(lambda connection, _: (connection.execute(row), True))
    with pytest.raises(MetastoreUnreadable):
        tokens.find("d")
