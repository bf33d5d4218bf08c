"""The server's certificate and key, checked before anything listens, with errors that help."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from lockgate.model.errors import UsageError

__all__ = ["TlsFiles", "server_context"]


@dataclass(frozen=True)
class TlsFiles:
    """Files in PEM: the certificate with what it is signed by, and its key."""

    certificate: Path
    key: Path


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """What a server shakes hands with: TLS 1.2 or newer. UsageError says which file is wrong."""
    for what, path in (("certificate", files.certificate), ("key", files.key)):
        _check_readable(what, path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        # A callback that knows no password: a terminal must not be asked for one.
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except _Encrypted:
        raise UsageError(
            "the key is protected with a password",
            object_=str(files.key),
            hint="store it without one, readable by Lockgate alone (chmod 600)",
        ) from None
    except ssl.SSLError as error:
        raise _unfit(files, error) from None
    return context


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted


def _check_readable(what: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            begins = file.read(1)
    except OSError as error:
        raise UsageError(
            f"the {what} of TLS cannot be read",
            object_=str(path),
            hint="see that the file is there and that Lockgate may read it",
            cause=error.strerror or type(error).__name__,
        ) from None
    if not begins:
        raise UsageError(f"the {what} of TLS is empty", object_=str(path), hint="store it as PEM")


def _unfit(files: TlsFiles, error: ssl.SSLError) -> UsageError:
    if "KEY_VALUES_MISMATCH" in (error.reason or ""):
        return UsageError(
            "certificate and key do not belong together",
            object_=str(files.key),
            hint=f"store the key that {files.certificate} was made for",
        )
    wrong = files.certificate if _unreadable(files.certificate) else files.key
    return UsageError(
        "a file of TLS is not what it should be",
        object_=str(wrong),
        hint="store certificate and key as PEM, each in its file",
        cause=error.reason or "not PEM",
    )


def _unreadable(certificate: Path) -> bool:
    """Whether the certificate alone is at fault: OpenSSL does not say which of the two."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    except ssl.SSLError:
        return True
    return False
