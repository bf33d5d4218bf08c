"""The log of a node has the moments that matter, each with its fields, and no secret."""

import pytest

from tests.node.telemetry.conftest import Story


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("joined the cluster", {"incarnation": 1}),
        ("elected coordinator", {"term": 1, "members": 1}),
        ("a feed is set up", {"feed": "feed"}),
        ("a feed is set up and recorded", {"feed": "feed", "tables": 2}),
        ("owns the feed", {"feed": "feed", "epoch": 1}),
        ("the feed runs", {"feed": "feed", "epoch": 1, "spans": 3}),
        ("capture begins", {"feed": "feed", "epoch": 1}),
        ("dispatchers started", {"feed": "feed", "count": 3}),
        ("copy begins", {"feed": "feed", "spans": 2}),
        ("copy ended", {"feed": "feed", "spans": 2, "rows": 500, "spans_left": 0}),
        (
            "barrier written: a schema change is at the target",
            {"feed": "feed", "epoch": 1, "kind": "alter", "tables": ["public.a"]},
        ),
        ("dispatchers cannot go on", {"feed": "feed", "code": "data-refused", "dispatchers": 1}),
        ("all dispatchers go on again", {"feed": "feed"}),
        ("the feed is being closed", {"feed": "feed", "epoch": 1, "goal": "stop"}),
        ("dispatchers stopped", {"feed": "feed"}),
        ("owns the feed no more", {"feed": "feed", "epoch": 1, "why": "the feed was stopped"}),
        ("a feed is removed", {"feed": "feed"}),
        ("a feed was removed", {"feed": "feed"}),
    ],
)
def test_a_moment_is_told_with_its_fields(
    story: Story, event: str, fields: dict[str, object]
) -> None:
    line = story.line(event)
    assert {key: line.get(key) for key in fields} == fields


def test_every_line_says_when_how_bad_and_of_which_node(story: Story) -> None:
    for line in story.lines:
        assert {"timestamp", "level", "node", "event"} <= line.keys(), line
        assert line["node"] == "one"


def test_trouble_comes_with_its_reason_and_what_is_done_about_it(story: Story) -> None:
    for line in story.lines:
        if line["level"] in {"warning", "error"} and line.get("logger", "").startswith("lockgate."):
            assert line["why"], line
            assert line["next"], line


def test_the_log_does_not_grow_with_rounds_retries_and_ticks(story: Story) -> None:
    own = [line for line in story.lines if line.get("logger", "").startswith("lockgate.")]
    for event in {line["event"] for line in own}:
        assert sum(line["event"] == event for line in own) <= 12, event


def test_no_password_and_no_token_is_in_any_line(story: Story) -> None:
    assert not any(word in story.log for word in story.secrets)


def test_nothing_in_the_story_was_a_bug(story: Story) -> None:
    assert [line for line in story.lines if "trace" in line] == []
