"""Shell: one raw connection to a broker, encoded by kio: a client that sends exactly what a test wants.

`ask` sends a request and waits for its response; `send` and `receive` do one half each. Requests are nested dicts with
Kafka's field names in snake case; missing fields get empty values.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import socket
import struct
import types
import typing
from typing import Any, Self

from kafka.record.default_records import DefaultRecordBatchBuilder
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID, CREATE_PARTITIONS = 18, 19, 20, 22, 37


class Line:
    """A connection; use it as a context manager."""

    def __init__(self, port: int, timeout_s: float = 20.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._last_id = 0
        self._asked: dict[int, tuple[int, int]] = {}

    def send(self, key: int, version: int, **fields: Any) -> int:
        """Returns the correlation id."""
        self._last_id += 1
        message = load_request_schema(key, version)
        out = io.BytesIO()
        header: Any = message.__header_schema__
        entity_writer(header)(
            out,
            fill(
                header,
                {
                    "request_api_key": key,
                    "request_api_version": version,
                    "correlation_id": self._last_id,
                    "client_id": "line",
                },
            ),
        )
        entity_writer(message)(out, fill(message, fields))
        self.send_frame(out.getvalue())
        self._asked[self._last_id] = (key, version)
        return self._last_id

    def send_frame(self, content: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(content)) + content)

    def send_bytes(self, content: bytes) -> None:
        self._socket.sendall(content)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def receive(self) -> tuple[int, Any]:
        """The next response to any request: (correlation id, content)."""
        frame = self.receive_frame()
        (correlation_id,) = struct.unpack_from(">i", frame)
        message: Any = load_response_schema(*self._asked.pop(correlation_id))
        _, head_size = entity_reader(message.__header_schema__)(frame, 0)
        response, size = entity_reader(message)(frame, head_size)
        assert head_size + size == len(frame), "bytes after the response"
        return correlation_id, response

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        asked = self.send(key, version, **fields)
        answered, response = self.receive()
        assert answered == asked, "the response belongs to another request"
        return response

    def is_closed(self) -> bool:
        """True if the broker closes the connection without sending anything more."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self._socket.recv(size - len(found))
            if not more:
                raise EOFError(f"{len(found)} of {size} bytes, then the end")
            found += more
        return found


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    timestamp: int = 1,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Records of these values, as kafka-python writes them. `producer`: id, epoch, base sequence."""
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(2, 0, 0, producer_id, epoch, sequence, 1 << 30)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp, key, value, [])
    return bytes(builder.build())


def fill(entity: Any, fields: dict[str, Any]) -> Any:
    """A kio entity made from nested dicts, lists and numbers."""
    hints = typing.get_type_hints(entity)
    values = {}
    for field in dataclasses.fields(entity):
        if field.name in fields:
            values[field.name] = _convert(hints[field.name], fields[field.name])
        elif field.default is dataclasses.MISSING:
            values[field.name] = _empty(hints[field.name])
    unknown = fields.keys() - {field.name for field in dataclasses.fields(entity)}
    assert not unknown, f"{entity.__name__} has no {unknown}"
    return entity(**values)


def _options(hint: Any) -> list[Any]:
    """The types in `X | None`, without the None."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return [option for option in typing.get_args(hint) if option is not types.NoneType]
    return [hint]


def _convert(hint: Any, value: Any) -> Any:
    (kind, *_) = _options(hint)
    if value is None:
        return None
    if typing.get_origin(kind) is tuple:
        return tuple(_convert(typing.get_args(kind)[0], item) for item in value)
    if dataclasses.is_dataclass(kind):
        return fill(kind, value)
    if _is_a(kind, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    return value


def _empty(hint: Any) -> Any:
    options = _options(hint)
    if hint is not options[0]:
        return None
    kind = options[0]
    if typing.get_origin(kind) is tuple:
        return ()
    for plain, empty in ((bool, False), (int, 0), (str, ""), (bytes, b""), (datetime.timedelta, datetime.timedelta())):
        if _is_a(kind, plain):
            return empty
    raise AssertionError(f"no empty value for {kind}")


def _is_a(kind: Any, plain: type) -> bool:
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return isinstance(kind, type) and issubclass(kind, plain)
