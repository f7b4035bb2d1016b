"""Machine: which deadline of a connection has passed."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.config import BrokerConfig


class Progress(NamedTuple):
    """What a connection has done; times are seconds of the monotonic clock."""

    is_new: bool  # no request yet
    may_receive: bool  # the broker reads from it, or would if it had the memory
    is_busy: bool  # requests or answers are pending
    last_request_at: float
    frame_began_at: float | None  # the next frame has arrived in part
    stalled_since: float | None  # the client takes no answers


def overdue_reason(connection: Progress, config: BrokerConfig, now: float) -> str | None:
    """Why the connection should be closed now, or None."""
    silent_ms = (now - connection.last_request_at) * 1000
    if connection.may_receive:
        if connection.is_new and silent_ms > config.first_request_timeout_ms:
            return "no_request"
        if _has_passed(connection.frame_began_at, config.request_receive_timeout_ms, now):
            return "slow_request"
    if _has_passed(connection.stalled_since, config.response_send_timeout_ms, now):
        return "slow_reader"
    if not connection.is_busy and silent_ms > config.connections_max_idle_ms:
        return "idle"
    return None


def _has_passed(since: float | None, timeout_ms: int, now: float) -> bool:
    return since is not None and since < now - timeout_ms / 1000
