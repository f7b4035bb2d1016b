"""Shell: workarounds for kafka-python 3.0.12 when it opens a TLS connection. Check both against a newer version before
updating.

* It waits without a limit for the handshake. The host of a broker that is frozen or cut off accepts the connection, and
  then nothing answers. A client that chose this broker never came back.
* If a broker dies before the handshake has begun, the fault is a bare OSError, which ends the task that refreshes the
  metadata. The client then asked the old leaders without end: `FencedLeaderEpoch`, and not a word in the log.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport

HANDSHAKE_SECONDS_MAX = 10.0

_build_transport = KafkaConnectionManager._build_transport
_handshake = KafkaSSLTransport.handshake


def guard_handshakes() -> None:
    """From now on a handshake that takes too long fails, as does one with a dead broker, and the client tries the next
    broker. Idempotent."""
    KafkaConnectionManager._build_transport = _build_transport_or_fail
    KafkaSSLTransport.handshake = _handshake_within_limit


async def _build_transport_or_fail(manager: Any, node: Any, timeout_at: float | None = None) -> Any:
    try:
        return await _build_transport(manager, node, timeout_at=timeout_at)
    except OSError as fault:
        raise KafkaConnectionError(f"TLS could not begin: {fault}") from fault


async def _handshake_within_limit(transport: Any) -> None:
    has_ended = False

    def give_up() -> None:
        if not has_ended:
            with suppress(OSError):
                # The socket below TLS: the handshake wakes up, finds the end of the stream, and fails.
                socket.socket.shutdown(transport._sock, socket.SHUT_RDWR)

    transport._net.call_at(time.monotonic() + HANDSHAKE_SECONDS_MAX, give_up)
    try:
        await _handshake(transport)
    except BaseException:
        transport._sock.close()  # kafka-python leaves the socket to the garbage collector
        raise
    finally:
        has_ended = True
