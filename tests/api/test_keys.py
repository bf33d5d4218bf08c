"""Tokens count as long as the service says so, and are read no more often than needed."""

import asyncio
import threading

from lockgate.api.keys import Keys
from lockgate.model.errors import MetastoreUnavailable
from lockgate.model.tokens import AccessToken, Role
from tests.api.conftest import Ask
from tests.support.services import FakeService


def _reads(service: FakeService) -> int:
    return sum(verb == "tokens" for verb, _ in service.calls)


def test_tokens_are_read_once_a_second() -> None:
    service, now = FakeService(), [0.0]
    keys = Keys(service, clock=lambda: now[0])
    token = service.keys[Role.VIEWER].reveal()

    async def ask() -> list[int]:
        reads = []
        for at in (0.0, 0.5, 0.999, 1.0, 1.5):
            now[0] = at
            assert await keys.asker(token) is not None
            reads.append(_reads(service))
        return reads

    assert asyncio.run(ask()) == [1, 1, 1, 2, 2]


def test_many_at_once_cause_one_read() -> None:
    service = FakeService()
    keys = Keys(service, clock=lambda: 0.0)

    async def ask() -> None:
        await asyncio.gather(*(keys.asker("wrong") for _ in range(50)))

    asyncio.run(ask())
    assert _reads(service) == 1


def test_a_token_that_was_removed_elsewhere_opens_nothing_a_second_later() -> None:
    service, now = FakeService(), [0.0]
    keys = Keys(service, clock=lambda: now[0])
    token = service.keys[Role.VIEWER].reveal()

    async def ask() -> bool:
        assert await keys.asker(token) is not None
        service.remove_token("viewer", "somebody")
        now[0] = 1.0
        return await keys.asker(token) is not None

    assert not asyncio.run(ask())


def test_a_list_that_was_read_before_a_change_is_not_kept_after_it() -> None:
    service = FakeService()
    keys = Keys(service, clock=lambda: 0.0)
    token = service.keys[Role.VIEWER].reveal()
    read = service.tokens

    def overtaken() -> list[AccessToken]:
        tokens = read()
        service.remove_token("viewer", "somebody")
        keys.forget()
        service.tokens = read  # type: ignore[method-assign]
        return tokens

    service.tokens = overtaken  # type: ignore[method-assign]

    async def ask() -> list[bool]:
        return [await keys.asker(token) is not None for _ in range(2)]

    assert asyncio.run(ask())[1] is False


def test_a_list_that_is_being_read_is_not_for_those_who_ask_after_a_change() -> None:
    service, keys_of = FakeService(), FakeService.tokens
    keys = Keys(service, clock=lambda: 0.0)
    token = service.keys[Role.VIEWER].reveal()
    reading, go = threading.Event(), threading.Event()

    def slow() -> list[AccessToken]:
        tokens = keys_of(service)
        if not reading.is_set():
            reading.set()
            assert go.wait(30)
        return tokens

    service.tokens = slow  # type: ignore[method-assign]

    async def ask() -> AccessToken | None:
        before = asyncio.ensure_future(keys.asker(token))
        await asyncio.to_thread(reading.wait, 30)
        service.remove_token("viewer", "somebody")
        keys.forget()
        after = await keys.asker(token)
        go.set()
        await before
        return after or await keys.asker(token)

    assert asyncio.run(ask()) is None


def test_all_who_wait_for_a_metastore_that_hangs_learn_of_one_failure() -> None:
    service, go, reads = FakeService(), threading.Event(), []
    keys = Keys(service)

    def hang() -> list[AccessToken]:
        reads.append(1)
        assert go.wait(30)
        raise MetastoreUnavailable("it does not answer", object_="m", hint="ask again")

    service.tokens = hang  # type: ignore[method-assign]

    async def ask() -> list[AccessToken | BaseException | None]:
        asking = [asyncio.ensure_future(keys.asker("any")) for _ in range(20)]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(*asking, return_exceptions=True)

    answers = asyncio.run(ask())
    assert [type(answer) for answer in answers] == [MetastoreUnavailable] * 20
    assert len(reads) == 1


def test_who_gives_up_waiting_takes_nothing_from_those_who_wait_on() -> None:
    service, go, keys_of = FakeService(), threading.Event(), FakeService.tokens
    keys = Keys(service)
    token = service.keys[Role.VIEWER].reveal()
    service.tokens = lambda: keys_of(service) if go.wait(30) else []  # type: ignore[method-assign]

    async def ask() -> AccessToken | None:
        first, second = (asyncio.ensure_future(keys.asker(token)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        go.set()
        return await second

    assert asyncio.run(ask()) is not None


def test_other_nodes_come_in_while_the_metastore_is_away(ask: Ask, service: FakeService) -> None:
    service.failures["tokens"] = MetastoreUnavailable("away", object_="m", hint="ask again")
    key = service.link_key().reveal()
    assert ask("POST", "/link/v1/messages", token=key, content=b"m").status_code == 204
    assert ask("POST", "/link/v1/messages", token="wrong", content=b"m").status_code == 401


def test_a_new_token_opens_at_once(ask: Ask) -> None:
    made = ask("POST", "/api/v1/tokens", json={"name": "ci", "role": "viewer"})
    assert made.status_code == 201
    assert ask("GET", "/api/v1/feeds", token=made.json()["token"]).status_code == 200


def test_a_removed_token_opens_nothing_at_once(ask: Ask, service: FakeService) -> None:
    assert ask("GET", "/api/v1/feeds", role=Role.VIEWER).status_code == 200
    assert ask("DELETE", "/api/v1/tokens/viewer").status_code == 204
    assert ask("GET", "/api/v1/feeds", role=Role.VIEWER).status_code == 401


def test_the_list_of_tokens_shows_names_and_roles_only(ask: Ask) -> None:
    items = ask("GET", "/api/v1/tokens").json()["items"]
    assert items == [{"name": role, "role": role} for role in ("admin", "operator", "viewer")]
