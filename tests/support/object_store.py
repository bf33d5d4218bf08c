"""An S3 store of one's own for tests: moto, as a process in an environment of its own.

Run as a program it is that process. It says the port on its first line, and answers one request at
a time: moto looks whether a condition holds, and then writes, and two threads could do that between
each other. A store that keeps what S3 promises does both at once.
"""

import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["OPTIONS", "PYTHON", "serving"]

PYTHON = Path(__file__).parents[2] / ".venv-object-store" / "bin" / "python"
"""Of the store's environment; `make test` makes it."""
OPTIONS = {
    "aws_access_key_id": "AKIDOURS",
    "aws_secret_access_key": "hush",
    "aws_region": "us-east-1",
    "aws_allow_http": "true",
}
_END_S = 30.0


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of a store that is empty; it ends with the block."""
    command = [PYTHON, __file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().decode().strip()
            assert said, "the store did not start"
            yield f"http://127.0.0.1:{said}"
        finally:
            process.terminate()
            process.wait(_END_S)


class OneAtATime:
    """An application of which no two requests are answered at once."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with self._lock:
            answer = self._application(environ, start_response)
            try:
                return list(answer)
            finally:
                getattr(answer, "close", lambda: None)()


def _serve() -> None:
    from moto.moto_server.werkzeug_app import (  # type: ignore[import-not-found]
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    application = OneAtATime(DomainDispatcherApplication(create_backend_app))
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request otherwise
    server = make_server("127.0.0.1", 0, application, True, request_handler=MotoRequestHandler)
    # Whoever started it and was killed ends it all the same: then there is nothing more to read.
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


def _end_with_parent(server: Any) -> None:
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    _serve()
