"""The shape that a segment's schema carries, and its digest."""

import functools
import hashlib
from typing import Final

import msgspec
import pyarrow as pa

from lockgate.model.tables import TableShape

__all__ = ["SHAPE", "digest_of", "shape_of"]

SHAPE: Final = b"lockgate.shape"
"""The key of the schema's metadata under which the shape stands, as JSON."""


def shape_of(schema: pa.Schema) -> TableShape:
    """The shape. ValueError when this is no schema of a segment."""
    return _decoded(_body(schema))


def digest_of(schema: pa.Schema) -> str:
    """A short text that is equal where the shapes are equal."""
    return _digested(_body(schema))


def _body(schema: pa.Schema) -> bytes:
    body = (schema.metadata or {}).get(SHAPE)
    if body is None:
        raise ValueError("the schema of a segment carries its shape")
    return bytes(body)


@functools.lru_cache(maxsize=4096)
def _decoded(body: bytes) -> TableShape:
    return msgspec.json.decode(body, type=TableShape)


@functools.lru_cache(maxsize=4096)
def _digested(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=8).hexdigest()
