"""Whom a node believes to be a node: certificates on the links between them.

A cluster has TLS on all its links or on none: a node that has it speaks to no peer without, and the
other way round, so that nobody is talked out of it by a changed address.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from lockgate.model.errors import UsageError

__all__ = ["LinkTls"]


@dataclass(frozen=True)
class LinkTls:
    """How peers are verified, and what this node shows them."""

    ca_file: Path | None = None
    """Signs the peers' certificates; None: the authorities that this machine trusts anyway."""
    cert_file: Path | None = None
    """Shown to peers that ask for a certificate."""
    key_file: Path | None = None
    """Of `cert_file`; None: the key is in the same file."""

    def context(self) -> ssl.SSLContext:
        """Verifies certificate and name of every peer. Raises UsageError for unusable files."""
        at: Path | None = self.ca_file
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert_file is not None:
                at = self.cert_file
                # The password is refused, not asked for: a service has nobody at its terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password=lambda: b"")
        except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
            raise UsageError(
                "the certificates of the link cannot be used",
                object_=str(at),
                hint="give PEM files that this process may read, the key without a password",
                cause=error,
            ) from error
        return context
