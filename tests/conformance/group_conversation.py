"""A conversation with one broker, recorded in a transcript that does not depend on which broker it is."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack
from typing import Any, Self
from uuid import UUID

from mqcore.wire.errors import ErrorCode
from mqcore.wire.frames import is_flexible
from mqcore.wire.messages import decode_response, encode_request
from mqcore.wire.primitives import Writer

JOIN, HEARTBEAT, LEAVE, SYNC, FIND = 11, 12, 13, 14, 10
COMMIT, FETCH, DELETE_OFFSETS = 8, 9, 47
DESCRIBE, LIST, DELETE = 15, 16, 42
METADATA, CREATE_TOPICS = 3, 19
MAY_DIFFER = {"throttle_time_ms", "host", "port", "node_id", "client_host", "error_message", "topic_id"}
NO_TOPIC = UUID(int=99)


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def send(self, key: int, version: int, **fields: Any) -> Self:
        """Send without waiting for the answer, which `receive` returns."""
        self._sent = key, version
        head = struct.pack(">hhih", key, version, 1, 4) + b"diff" + (b"\0" if is_flexible(key, version) else b"")
        body = head + encode_request(key, version, fields)
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        return self

    def receive(self) -> Any:
        with self._socket.makefile("rb") as stream:
            (length,) = struct.unpack(">i", stream.read(4))
            frame = stream.read(length)
        return decode_response(*self._sent, frame[5 if is_flexible(*self._sent) else 4 :])

    def close(self) -> None:
        self._socket.close()


class Conversation:
    """Sends requests to one broker and records its answers in a form that does not depend on the broker."""

    def __init__(self, port: int) -> None:
        self.transcript: list[tuple[str, Any]] = []
        self._port = port
        self._ids: dict[str, str] = {}
        self._open = ExitStack()
        self._first = self._connect()

    def close(self) -> None:
        self._open.close()

    def _connect(self) -> Connection:
        connection = Connection(self._port)
        self._open.callback(connection.close)
        return connection

    def ask(self, label: str, key: int, version: int, **fields: Any) -> Any:
        return self.hear(label, self._first.send(key, version, **fields))

    def quietly(self, key: int, version: int, **fields: Any) -> Any:
        return self._first.send(key, version, **fields).receive()

    def later(self, key: int, version: int, **fields: Any) -> Connection:
        """Send a request whose answer has to wait on a new connection. The broker has the request when this returns."""
        connection = self._connect().send(key, version, **fields)
        time.sleep(0.25)
        return connection

    def hear(self, label: str, connection: Connection) -> Any:
        answer = connection.receive()
        self.transcript.append((label, self._comparable(answer)))
        return answer

    def know(self, member_id: str) -> None:
        """Assign a number to an id now, because brokers list members in any order."""
        self._comparable(member_id, "member_id")

    def _comparable(self, value: Any, name: str = "") -> Any:
        if hasattr(value, "_asdict"):
            fields = value._asdict().items()
            return {field: self._comparable(inner, field) for field, inner in fields if field not in MAY_DIFFER}
        if isinstance(value, list | tuple):
            return sorted((self._comparable(inner) for inner in value), key=repr)
        if name == "error_code":
            return ErrorCode(value).name
        if name in ("member_id", "leader") and len(value) > 36:
            return self._ids.setdefault(value, f"{value[:-36]}{len(self._ids)}")
        return value

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def describe(self, label: str, group: str, version: int = 5) -> None:
        self.ask(f"describe {label}", DESCRIBE, version, groups=[group])

    def commit(self, label: str, group: str, generation: int = -1, member: str = "", **more: Any) -> None:
        self.ask(f"commit {label}", COMMIT, more.pop("version", 9), **commit(group, generation, member, **more))

    def heartbeat(self, label: str, group: str, generation: int, member: str, instance: str | None = None) -> None:
        fields = {"group_id": group, "generation_id": generation, "member_id": member}
        self.ask(f"heartbeat {label}", HEARTBEAT, 4, **fields, **_instance(instance))

    def sync(
        self, label: str, group: str, generation: int, member: str, *parts: tuple[str, bytes], **more: Any
    ) -> None:
        fields = {"group_id": group, "generation_id": generation, "member_id": member, "assignments": _parts(parts)}
        self.ask(f"sync {label}", SYNC, more.pop("version", 3), **fields, **more)

    def leave(self, label: str, group: str, *members: tuple[str, str | None]) -> None:
        leaving = [{"member_id": member, **_instance(instance)} for member, instance in members]
        self.ask(f"leave {label}", LEAVE, 5, group_id=group, members=leaving)


def subscription(*topics: str) -> bytes:
    writer = Writer()
    writer.int16(0)
    writer.array(topics, writer.string)
    writer.binary(b"")
    return writer.finish()


def join(group: str, member: str = "", instance: str | None = None, **more: Any) -> dict[str, Any]:
    protocols = more.pop("protocols", [("range", subscription("orders"))])
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 3_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
        **_instance(instance),
        **more,
    }


def commit(group: str, generation: int = -1, member: str = "", **more: Any) -> dict[str, Any]:
    offsets = more.pop("offsets", [(0, 1)])
    text = more.pop("text", "note")
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": text} for index, offset in offsets
    ]
    topics = [{"name": more.pop("topic", "orders"), "partitions": partitions}]
    named = _instance(more.pop("instance", None))
    fields = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member, "topics": topics}
    return {**fields, **named}


def _instance(instance: str | None) -> dict[str, str]:
    return {} if instance is None else {"group_instance_id": instance}


def _parts(parts: tuple[tuple[str, bytes], ...]) -> list[dict[str, Any]]:
    return [{"member_id": member, "assignment": assignment} for member, assignment in parts]


def _topics(*places: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": index}]} for name, index in places]
