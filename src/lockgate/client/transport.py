"""One request and its answer: sent, tried again where that is safe, decoded, or raised.

    reaches nobody (refused, no route)      again, whatever it is
    answer broken off · 429 · 503 and kin   again if it is safe, i.e. done twice is done once
    no answer in time, anything else        raised at once

Safe are questions, creations (which are idempotent by name) and verbs that name an end rather than
a step: pausing what is paused changes nothing. A split or a removal is not safe: done twice it is
another one, or a lie about what happened. Their lost answers are `OutcomeUnknown`.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, Generic, TypeVar

import httpx
import msgspec

from lockgate.client.errors import NotLockgate, ServerUnavailable, never_sent, of_transport
from lockgate.client.place import Place
from lockgate.client.problems import of_problem, read_problem
from lockgate.model.errors import LockgateError, Transient, UsageError
from lockgate.model.reading import reveal

__all__ = ["DATABASES_S", "TRIES_MAX", "Transport"]

T = TypeVar("T")

Param = str | int | float | tuple[str, ...] | None
"""What may stand in a query; several of one name are a tuple, and None is left out."""

TRIES_MAX: Final = 4
BACKOFF_S: Final = 0.1
"""The first pause; each is twice the one before. Little, because people wait for the answer."""
RETRY_AFTER_S_MAX: Final = 20.0
"""A server that asks for more patience than this is told of instead."""
CONNECT_S_MAX: Final = 5.0
DATABASES_S: Final = 90.0
"""What a verb may take longer because the node asks databases, which may be slow or away."""
_BUSY: Final = frozenset({429, 502, 503, 504})


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...]
    next: str | int | None = None


class Transport:
    """A connection to one node. May be used by several threads."""

    def __init__(
        self,
        place: Place,
        timeout_s: float,
        *,
        tries: int = TRIES_MAX,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = place.url
        self._timeout_s = timeout_s
        self._tries = tries
        self._sleep = sleep
        self._key_hint = (
            "the token that was sent opens nothing here: see LOCKGATE_TOKEN, LOCKGATE_HOME, --home"
            if place.token
            else "set LOCKGATE_TOKEN, or name the server's home with LOCKGATE_HOME or --home"
        )
        headers = {"accept": "application/json"}
        if place.token:
            headers["authorization"] = f"Bearer {place.token.reveal()}"
        self._http = httpx.Client(
            base_url=place.url,
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S_MAX)),
            verify=_trusted(place),
            trust_env=not place.local,
        )

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def get(self, path: str, kind: type[T], *, more_s: float = 0.0, **params: Param) -> T:
        """Ask a question. `more_s`: the answer may take that much longer than others."""
        return self._decoded(self._ask("GET", path, params=params, more_s=more_s), kind)

    def post(
        self, path: str, kind: type[T], body: object = None, *, safe: bool, more_s: float = 0.0
    ) -> T:
        """Have something done. `safe`: done twice it is done once. `more_s`: it may take that much
        longer than other requests."""
        return self._decoded(self._ask("POST", path, body=body, safe=safe, more_s=more_s), kind)

    def delete(
        self, path: str, kind: type[T] | None = None, *, more_s: float = 0.0, **params: str
    ) -> T | None:
        """Have something removed. What is left of it comes as a `kind`; None when nothing is."""
        answer = self._ask("DELETE", path, params=params or None, safe=False, more_s=more_s)
        return self._decoded(answer, kind) if kind is not None and answer.content else None

    def pages(
        self, path: str, kind: type[T], cursor: str = "after", **params: str | int | None
    ) -> Iterator[T]:
        """All items of a list, asking for the next page when the one before is used up."""
        page_of: Any = _Page[kind]  # type: ignore[valid-type]
        while True:
            page: _Page[T] = self._decoded(self._ask("GET", path, params=params), page_of)
            yield from page.items
            if page.next in {None, ""} or not page.items:
                return
            params[cursor] = page.next

    def text(self, path: str) -> str:
        """An answer that is plain text."""
        return self._ask("GET", path).text

    # --- inside ---------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Param] | None = None,
        body: object = None,
        safe: bool = True,
        more_s: float = 0.0,
    ) -> httpx.Response:
        request = self._http.build_request(
            method,
            path,
            params={key: value for key, value in (params or {}).items() if value is not None},
            content=msgspec.json.encode({} if body is None else body, enc_hook=reveal)
            if method == "POST"
            else None,
            headers={"content-type": "application/json"} if method == "POST" else None,
            timeout=httpx.Timeout(
                self._timeout_s + more_s, connect=min(self._timeout_s, CONNECT_S_MAX)
            ),
        )
        operation = f"{method} {path}"
        for attempt in range(1, self._tries + 1):
            pause_s = BACKOFF_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)
            try:
                answer = self._http.send(request)
            except httpx.HTTPError as error:
                problem = of_transport(error, self.url, operation, safe=safe)
                late = isinstance(error, httpx.ReadTimeout)  # it has had its time
                again = isinstance(problem, Transient) and (
                    never_sent(error) or (safe and not late)
                )
            else:
                if answer.is_success:
                    return answer
                problem = self._refusal(answer, operation)
                again = safe and answer.status_code in _BUSY
                pause_s = max(pause_s, _retry_after_s(answer))
            if not again or attempt == self._tries or pause_s > RETRY_AFTER_S_MAX:
                raise problem
            self._sleep(pause_s)
        raise AssertionError("the loop returns or raises")

    def _refusal(self, answer: httpx.Response, operation: str) -> LockgateError:
        if problem := read_problem(answer.headers.get("content-type", ""), answer.content):
            if answer.status_code == 401:
                problem = msgspec.structs.replace(problem, hint=self._key_hint)
            return of_problem(problem, answer.status_code)
        if answer.status_code in _BUSY:
            return ServerUnavailable(
                f"the way to the server is closed (HTTP {answer.status_code})",
                object_=self.url,
                hint="ask again later; if it stays so, look at the proxy before the server",
                operation=operation,
            )
        return self._stranger(f"HTTP {answer.status_code}", operation)

    def _decoded(self, answer: httpx.Response, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.MsgspecError as error:
            raise self._stranger(str(error), str(answer.request.url.path)) from None

    def _stranger(self, why: str, operation: str) -> NotLockgate:
        return NotLockgate(
            "the answer is not one of a Lockgate server of this version",
            object_=self.url,
            hint="see the host and the port; `lockgate --version` here and there should agree",
            operation=operation,
            cause=why,
        )


def _trusted(place: Place) -> Any:
    """What httpx is to check certificates against."""
    import ssl

    if not place.url.startswith("https://"):
        return False  # nothing to check, and loading the system's authorities takes a while
    try:
        return ssl.create_default_context(cafile=place.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            "the file of trusted certificates cannot be read",
            object_=place.ca,
            hint="LOCKGATE_CA names a file in PEM",
            operation="connect",
            cause=error,
        ) from error


def _retry_after_s(answer: httpx.Response) -> float:
    said = answer.headers.get("retry-after", "")
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
