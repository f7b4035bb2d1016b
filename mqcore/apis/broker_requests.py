"""Machine: what the APIs share that brokers send to the controller: one command, and one answer or refusal.

A broker repeats its request, so a node that is not the active controller, or cannot write its log, only says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqcore.apis.call import LATER, Call, Later, Response
from mqcore.controller.commands import ControllerAnswer, ControllerCommand
from mqcore.coordination.journal import CommandFailed, JournalFault, LeadershipLost
from mqcore.wire.errors import ErrorCode, Refusal


def submit(call: Call, command: ControllerCommand, encode: Callable[[Any], Response]) -> Later:
    def answered(answer: ControllerAnswer | JournalFault) -> None:
        call.answer(encode(_refusal_of(answer) if isinstance(answer, JournalFault) else answer))

    services = call.services
    if services.controller.is_active:
        services.controller.submit(command, answered)
    else:
        call.answer(encode(Refusal(ErrorCode.NOT_CONTROLLER)))
    return LATER


def _refusal_of(fault: JournalFault) -> Refusal:
    match fault:
        case LeadershipLost():
            return Refusal(ErrorCode.NOT_CONTROLLER)
        case CommandFailed():
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        case _:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
