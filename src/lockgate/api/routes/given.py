"""What handlers are given besides bodies: who asks, names out of the path, a body as bytes."""

from typing import Annotated, cast

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from lockgate.api.door import Asked
from lockgate.model.tokens import Role

__all__ = ["Name", "RawBody", "RemovalQuery", "Standing", "Who"]

Name = Annotated[str, Path(min_length=1, max_length=500)]
"""A name as it came; whether there is such a thing is for the service to say."""


class _RemovalFields(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    force: bool = Field(
        default=False,
        description="Do not wait for a database that cannot be reached; leave what is there.",
    )


RemovalQuery = Annotated[_RemovalFields, Query()]


# Coroutines, though they wait for nothing: plain functions would each cost a thread.
async def _who(request: Request) -> str:
    return cast(Asked, request.scope["state"]["asked"]).who


async def _role(request: Request) -> Role:
    role = cast(Asked, request.scope["state"]["asked"]).role
    assert role is not None, "a verb that is not for tokens asks for a token's role"
    return role


async def _raw(request: Request) -> bytes:
    return await request.body()


Who = Annotated[str, Depends(_who)]
"""The name of the token, for the history."""

Standing = Annotated[Role, Depends(_role)]
"""The role of the token, for what may be asked in some ways by more people than in others."""

RawBody = Annotated[bytes, Depends(_raw)]
