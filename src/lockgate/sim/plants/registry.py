"""How a bug is planted: one method of one class is replaced while a world runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from lockgate.sim.violation import Law

FEEDS = "feeds"
LAKE = "lake"
MOVE = "move"


class Plant(NamedTuple):
    """A known bug, and how to put it in."""

    name: str
    what: str
    law: str
    install: Callable[[], AbstractContextManager[object]]
    world: str = FEEDS
    """In which of a seed's worlds it is."""


PLANTS: dict[str, Plant] = {}


@contextmanager
def replaced(owner: Any, name: str, broken: Any) -> Iterator[None]:
    """`owner.name` is `broken` while the context lasts."""
    inherited = name not in owner.__dict__
    original = getattr(owner, name) if inherited else owner.__dict__[name]
    setattr(owner, name, broken)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def plant(
    name: str, what: str, law: Law, owner: Any, method: str, world: str = FEEDS
) -> Callable[[Any], Any]:
    """Register the decorated function as what `owner.method` becomes."""

    def register(broken: Any) -> Any:
        PLANTS[name] = Plant(name, what, law.value, lambda: replaced(owner, method, broken), world)
        return broken

    return register


def also(name: str, owner: Any, method: str) -> Callable[[Any], Any]:
    """The same bug takes this method too: it was guarded in two places."""

    def register(broken: Any) -> Any:
        first = PLANTS[name]

        @contextmanager
        def both() -> Iterator[None]:
            with first.install(), replaced(owner, method, broken):
                yield

        PLANTS[name] = first._replace(install=both)
        return broken

    return register
