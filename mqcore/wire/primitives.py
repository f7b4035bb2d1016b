"""Codec: the Kafka protocol's primitive types, for schemas written by hand: the door to `reader` and `writer`."""

from mqcore.wire.reader import MAX_ELEMENTS, Reader
from mqcore.wire.writer import Writer

__all__ = ["MAX_ELEMENTS", "Reader", "Writer"]
