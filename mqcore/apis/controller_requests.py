"""Machine: what the APIs that change metadata share: a controller command and an outcome for each entry.

A fault of the metadata log is a storage error of every entry, because no part of the command has been applied. In the
same way, a command whose records exceed one batch of the metadata log is a policy violation of every entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqcore.apis.call import LATER, Call, Later, Response
from mqcore.controller.commands import ControllerAnswer, ControllerCommand, CreatedTopic, DeletedTopic
from mqcore.coordination.journal import CommandFailed, FactsTooLarge, JournalFault, LeadershipLost
from mqcore.wire.errors import ErrorCode, Refusal

EntryOutcome = CreatedTopic | DeletedTopic | Refusal | None
"""The outcome of one entry of a command; None if it was applied and returns nothing."""

MESSAGE_CHARACTERS_MAX = 1000


def submit(
    call: Call, command: ControllerCommand, entries: int, respond: Callable[[Sequence[EntryOutcome]], Response]
) -> Later:
    """Submit a command with `entries` entries; `respond` turns their outcomes into the response, later."""

    def answered(answer: ControllerAnswer | JournalFault) -> None:
        if isinstance(answer, JournalFault):
            answer = (refusal_of(answer),) * entries
        assert isinstance(answer, tuple) and len(answer) == entries
        try:
            response = respond(answer)
        except Exception:
            call.hang_up()  # otherwise the client would wait for its timeout
            call.answer(None)
            raise
        call.answer(response)

    call.services.controller.submit(command, answered)
    return LATER


def refusal_of(fault: JournalFault) -> Refusal:
    match fault:
        case FactsTooLarge():
            message = f"{fault}: name fewer topics or settings in one request"
            return Refusal(ErrorCode.POLICY_VIOLATION, message)
        case CommandFailed():
            message = "the command failed unexpectedly; the broker's log has the details"
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        case LeadershipLost():
            return Refusal(ErrorCode.NOT_CONTROLLER, str(fault))
        case _:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(fault))


def error_of(outcome: EntryOutcome) -> ErrorCode:
    return outcome.error if isinstance(outcome, Refusal) else ErrorCode.NONE


def message_of(outcome: EntryOutcome) -> str | None:
    """Truncated, because it may quote the client, and strings of older versions end at 32,767 bytes."""
    return outcome.message[:MESSAGE_CHARACTERS_MAX] if isinstance(outcome, Refusal) and outcome.message else None
