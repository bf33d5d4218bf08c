"""TLS in front of a PostgreSQL server, for servers that are built without it.

The embedded server speaks no TLS. `TlsFront` does, in the way of PostgreSQL's protocol, and passes
everything on to a plain server: clients make a real handshake and check a real certificate.
"""

import contextlib
import select
import socket
import ssl
import struct
import subprocess
import threading
from pathlib import Path
from typing import Final, Self

_SSL_REQUEST: Final = 80877103


def make_certificate(directory: Path, name: str, host: str) -> tuple[Path, Path]:
    """A self-signed certificate for `host` (a name or an address) and its key."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    kind = "IP" if host.replace(".", "").isdigit() else "DNS"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName={kind}:{host}"]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    key.chmod(0o600)
    return certificate, key


class TlsFront:
    """Listens on a loopback port with a certificate, and forwards to `target` in the clear."""

    def __init__(
        self, host: str, port: int, certificate: Path, key: Path, *, clients: Path | None = None
    ) -> None:
        """`clients`: only clients with a certificate signed by this authority come in."""
        self._target = (host, port)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        if clients is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(clients)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.handshakes = 0

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(10)
        with client, contextlib.suppress(OSError):
            while struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))[1] != _SSL_REQUEST:
                client.sendall(b"N")
            client.sendall(b"S")
            with self._context.wrap_socket(client, server_side=True) as front:
                self.handshakes += 1
                with socket.create_connection(self._target) as behind:
                    self._forward(front, behind)

    def _forward(self, front: ssl.SSLSocket, behind: socket.socket) -> None:
        # One thread for both directions: an SSL object is not to be used by two at once.
        both = {side.fileno(): side for side in (front, behind)}
        poll = select.poll()
        for side in both:
            poll.register(side, select.POLLIN)
        while not self._over.is_set():
            for descriptor, _ in poll.poll(50):
                ready = both[descriptor]
                data = ready.recv(65536)
                while ready is front and front.pending():
                    data += front.recv(65536)
                if not data:
                    return
                (behind if ready is front else front).sendall(data)
