"""A problem document becomes the error that the node raised."""

import pytest

from lockgate.client.problems import Problem, of_problem, read_problem
from lockgate.model.errors import (
    Conflict,
    IllegalTransition,
    LockgateError,
    MissingPrivilege,
    NotFound,
    OutcomeUnknown,
    Terminal,
    Transient,
    UsageError,
)

JSON = "application/problem+json"


@pytest.mark.parametrize(
    "kind", [Conflict, NotFound, UsageError, MissingPrivilege, OutcomeUnknown, Transient]
)
def test_the_code_names_the_class(kind: type[LockgateError]) -> None:
    assert type(of_problem(Problem(kind.code, status=400), 400)) is kind


def test_nothing_of_the_error_is_lost() -> None:
    problem = Problem("conflict", "Title", "it is used", 409, "shop", "remove the feed", "remove")
    error = of_problem(problem, 409)
    assert (error.what, error.object, error.hint, error.operation) == (
        *("it is used", "shop", "remove the feed", "remove"),
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [(503, Transient), (429, Transient), (409, Conflict), (410, Terminal), (422, UsageError)],
)
def test_an_unknown_code_keeps_its_name_and_its_status_says_the_rest(
    status: int, kind: type[LockgateError]
) -> None:
    error = of_problem(Problem("never-heard-of"), status)
    assert isinstance(error, kind)
    assert error.as_dict()["code"] == "never-heard-of"


def test_a_bug_of_the_node_is_no_bug_here() -> None:
    error = of_problem(Problem("illegal-transition"), 500)
    assert not isinstance(error, IllegalTransition)
    assert isinstance(error, Terminal)


def test_members_that_are_missing_are_empty() -> None:
    assert read_problem(JSON, b'{"code": "conflict"}') == Problem("conflict")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("text/html", b'{"code": "conflict"}', id="another type"),
        pytest.param(JSON, b"<html>", id="no JSON"),
        pytest.param(JSON, b'{"title": "x"}', id="no code"),
    ],
)
def test_what_is_no_problem_of_ours_is_none(kind: str, body: bytes) -> None:
    assert read_problem(kind, body) is None
