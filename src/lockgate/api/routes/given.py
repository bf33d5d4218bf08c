"""What handlers are given besides bodies: who asks, names out of the path, a body as bytes."""

from typing import Annotated, cast

from fastapi import Depends, Path, Request

from lockgate.api.door import Asked

__all__ = ["Name", "RawBody", "Who"]

Name = Annotated[str, Path(min_length=1, max_length=500)]
"""A name as it came; whether there is such a thing is for the service to say."""


# Coroutines, though they wait for nothing: plain functions would each cost a thread.
async def _who(request: Request) -> str:
    return cast(Asked, request.scope["state"]["asked"]).who


async def _raw(request: Request) -> bytes:
    return await request.body()


Who = Annotated[str, Depends(_who)]
"""The name of the token, for the history."""

RawBody = Annotated[bytes, Depends(_raw)]
