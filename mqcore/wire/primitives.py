"""Codec: the Kafka protocol's primitive types, re-exported from `reader` and `writer`."""

from mqcore.wire.reader import ELEMENTS_MAX, Reader
from mqcore.wire.writer import Writer

__all__ = ["ELEMENTS_MAX", "Reader", "Writer"]
