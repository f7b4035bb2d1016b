"""Shell: a workaround for kafka-python 3.0.12: it waits without a limit for the TLS handshake.

The host of a broker that is frozen or cut off accepts the connection, and then nothing answers. A client that chose
this broker never came back. Check this against a newer version before updating.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

from kafka.net.transport import KafkaSSLTransport

HANDSHAKE_SECONDS_MAX = 10.0

_handshake = KafkaSSLTransport.handshake


def limit_handshakes() -> None:
    """From now on a handshake that takes too long fails, and the client tries the next broker. Idempotent."""
    KafkaSSLTransport.handshake = _handshake_within_limit


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
