"""Bugs of the writer: what becomes of "durable first" when outcomes are taken lightly."""

from typing import Any

from lockgate.core.writer import Writer
from lockgate.model.batch import Landed, NotLanded, Unknown
from lockgate.sim.plants.registry import plant
from lockgate.sim.violation import Law


@plant(
    "unknown-as-not-landed",
    "a batch of unknown outcome is composed anew, as if it had not landed",
    Law.RECORD,
    Writer,
    "answered",
)
def _unknown_as_not_landed(self: Writer, now: int, answer: Landed | NotLanded | Unknown) -> None:
    if isinstance(answer, Unknown):
        answer = NotLanded(answer.scope, answer.serial, answer.why)
    _answered(self, now, answer)


_answered = Writer.answered


@plant(
    "act-before-record",
    "what must wait for durability is done at once",
    Law.RECORD,
    Writer,
    "write",
)
def _act_before_record(self: Writer, *args: Any, **kwargs: Any) -> None:
    then = kwargs.pop("then", None)
    _write(self, *args, **kwargs)
    if then is not None:
        then()


_write = Writer.write
