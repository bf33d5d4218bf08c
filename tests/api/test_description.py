"""The OpenAPI tells everything, and the shapes it tells of are those of the model."""

from typing import Any

import msgspec
import pytest
from jsonschema_rs import validator_for

from lockgate.api.app import make_interface
from lockgate.api.bodies import FeedBody
from lockgate.api.verbs import VERBS, Access, Verb
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.tokens import Role
from tests.support.services import FakeService

PEOPLES = [verb for verb in VERBS if verb.access is not Access.LINK]


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    return make_interface(FakeService()).app.openapi()


def _operation(description: dict[str, Any], verb: Verb) -> dict[str, Any]:
    path = description["paths"][verb.path.replace(":path}", "}")]
    found: dict[str, Any] = path[verb.method.lower()]
    return found


def test_the_link_is_not_described(description: dict[str, Any]) -> None:
    assert not [path for path in description["paths"] if path.startswith("/link")]
    assert sum(len(path) for path in description["paths"].values()) == len(PEOPLES)


@pytest.mark.parametrize("verb", PEOPLES, ids=lambda verb: verb.operation)
def test_every_verb_is_described_with_all_its_answers(
    verb: Verb, description: dict[str, Any]
) -> None:
    operation = _operation(description, verb)
    assert operation["operationId"] == verb.operation
    assert operation["summary"] == verb.summary
    assert operation["x-lockgate-access"] == verb.access.value
    assert bool(operation["security"]) == (verb.access is not Access.OPEN)
    told = {int(status) for status in operation["responses"]}
    assert told == {verb.status, *verb.also, *verb.statuses}
    for status in verb.statuses:
        [(kind, content)] = operation["responses"][str(status)]["content"].items()
        assert kind == "application/problem+json"
        assert content["example"]["status"] == status


@pytest.mark.parametrize("verb", PEOPLES, ids=lambda verb: verb.operation)
def test_every_example_fits_its_own_schema(verb: Verb, description: dict[str, Any]) -> None:
    for answer in _operation(description, verb)["responses"].values():
        for content in answer.get("content", {}).values():
            schema = {**content["schema"], "components": description["components"]}
            validator_for(schema).validate(content["example"])


def test_every_schema_that_is_referred_to_is_there(description: dict[str, Any]) -> None:
    prefix = "#/components/schemas/"
    text = msgspec.json.encode(description).decode()
    referred = {part.partition('"')[0] for part in text.split(prefix)[1:]}
    assert referred == set(description["components"]["schemas"])


def test_a_feeds_body_has_the_keys_and_defaults_of_its_configuration() -> None:
    needed: dict[str, Any] = {"name": "f", "source": "a", "target": "b", "tables": ["public.*"]}
    body = FeedBody.model_validate(needed)
    shown = body.model_dump(by_alias=True)
    assert set(shown) == {field.name for field in msgspec.structs.fields(FeedConfig)}
    spelled_out = {**shown, "source": "a", "target": "b"}
    assert body.config(Role.OPERATOR) == read_config(spelled_out) == read_config(needed)
