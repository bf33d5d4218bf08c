"""An error says what, which object, why, and what to do next."""

import traceback

import pytest

from lockgate.model import errors
from lockgate.model.errors import (
    DidNotLand,
    IllegalTransition,
    LockgateError,
    MetastoreUnavailable,
    OutcomeUnknown,
    StaleOwner,
    Terminal,
    Transient,
    UsageError,
)

CLASSES = [getattr(errors, name) for name in errors.__all__]


def test_text_is_what_object_cause_and_the_hint_is_apart() -> None:
    error = MetastoreUnavailable(
        "the metastore does not answer",
        object_="shop.db",
        hint="check that the disk is mounted",
        cause=OSError("no such device"),
    )
    assert str(error) == "the metastore does not answer (shop.db): no such device"
    assert error.hint == "check that the disk is mounted"


def test_text_without_cause_or_object_has_no_empty_parts() -> None:
    assert str(UsageError("no such feed", object_="shop", hint="")) == "no such feed (shop)"
    assert str(UsageError("no command", object_="", hint="")) == "no command"


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (ValueError("first\nsecond"), "first"),
        (TimeoutError(), "TimeoutError"),
        ("said the server", "said the server"),
        (None, ""),
    ],
)
def test_cause_is_shown_in_one_line(cause: BaseException | str | None, line: str) -> None:
    assert LockgateError("x", object_="y", hint="", cause=cause).cause_line == line


def test_cause_is_chained_so_that_a_trace_shows_all_of_it() -> None:
    cause = ValueError("first\nsecond")
    assert LockgateError("x", object_="y", hint="", cause=cause).__cause__ is cause


def test_codes_are_unique_because_scripts_tell_errors_apart_by_them() -> None:
    codes = [cls.code for cls in CLASSES]
    assert len(set(codes)) == len(codes)


def test_only_wrong_usage_exits_2() -> None:
    assert [cls for cls in CLASSES if cls.exit_code == 2] == [UsageError]


def test_retryability_is_one_type_and_never_both() -> None:
    assert not [cls for cls in CLASSES if issubclass(cls, Transient) and issubclass(cls, Terminal)]
    assert issubclass(DidNotLand, Transient)
    assert issubclass(StaleOwner, Terminal)


def test_unknown_outcome_is_neither_safe_to_repeat_nor_to_forget() -> None:
    assert not issubclass(OutcomeUnknown, Transient | Terminal)


def test_machines_get_the_words_people_are_shown() -> None:
    error = StaleOwner(
        "a newer owner was seen", object_="span 7", hint="stop", operation="apply", cause="epoch 3"
    )
    assert error.as_dict() == {
        "code": "stale-owner",
        "what": "a newer owner was seen",
        "object": "span 7",
        "operation": "apply",
        "cause": "epoch 3",
        "hint": "stop",
    }


def test_illegal_transition_shows_its_story_in_the_trace_and_not_in_the_line() -> None:
    error = IllegalTransition(
        "removed → working", object_="span 7", story=["1: created", "2: removed"]
    )
    trace = "".join(traceback.format_exception(error))
    assert error.story == ["1: created", "2: removed"]
    assert str(error) == "removed → working (span 7)"
    assert "  1: created\n  2: removed" in trace
    assert f"hint: {error.hint}" in trace
