"""Shell: a small blocking client for the commands of the operator: one request at a time, in one fixed version each."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Final, Self

from mqcore.config_values import BadConfig, host_and_port
from mqcore.wire.errors import ErrorCode, error_code
from mqcore.wire.frames import BadFrame, request_head, response_body_start
from mqcore.wire.messages import decode_response, encode_request

SECONDS_MAX: Final = 10.0
RESPONSE_BYTES_MAX: Final = 1 << 26
CLIENT_ID: Final = "mqcore"

_LENGTH = struct.Struct(">i")


class ClientError(Exception):
    """The broker cannot be reached or refuses; the text says why."""


class Client:
    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=SECONDS_MAX)
        except OSError as error:
            raise ClientError(f"{self.address} cannot be reached: {error.strerror or error}") from error

    @classmethod
    def to(cls, addresses: str) -> Client:
        """The first broker of the list that can be reached."""
        try:
            found = [host_and_port(each.strip(), "--bootstrap-server") for each in addresses.split(",")]
        except BadConfig as bad:
            raise ClientError(str(bad)) from bad
        faults: list[str] = []
        for host, port in found:
            try:
                return cls(host, port)
            except ClientError as fault:
                faults.append(str(fault))
        raise ClientError("; ".join(faults))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def request(self, key: int, version: int, **fields: Any) -> Any:
        """The decoded response."""
        frame = request_head(key, version, 0, CLIENT_ID) + encode_request(key, version, fields)
        try:
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
            response = self._receive_frame()
            return decode_response(key, version, memoryview(response)[response_body_start(key, version) :])
        except (OSError, BadFrame) as error:
            raise ClientError(f"{self.address} did not answer: {error}") from error

    def _receive_frame(self) -> bytes:
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        if not 0 < length <= RESPONSE_BYTES_MAX:
            raise BadFrame(f"a response of {length} bytes")
        return self._receive(length)

    def _receive(self, length: int) -> bytes:
        received = bytearray()
        while len(received) < length:
            part = self._socket.recv(length - len(received))
            if not part:
                raise OSError("the broker closed the connection")
            received += part
        return bytes(received)


def check(what: str, code: int, message: str | None = None) -> None:
    """Raise `ClientError` for an error code."""
    if code != ErrorCode.NONE:
        raise ClientError(f"{what}: {message or error_code(code).name}")


def table(rows: list[tuple[str, ...]]) -> str:
    """Columns of equal width; the first row has the names."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
