"""What the APIs that change metadata share: a command for the controller, and its answer, entry by entry.

A fault of the metadata log is a storage error of every entry: nothing of the command has happened. The same holds for
a command whose records would not fit into one batch of the metadata log: a policy violation of every entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqcore.apis.call import LATER, Call, Later, Response
from mqcore.controller.commands import ControllerAnswer, ControllerCommand, TopicGone, TopicMade
from mqcore.coordination.journal import CommandFailed, FactsTooLarge, JournalFault
from mqcore.wire.errors import ErrorCode, Refusal

Entry = TopicMade | TopicGone | Refusal | None
"""What became of one entry of a command; None: done, nothing to tell."""

LONGEST_MESSAGE = 1000


def ask(call: Call, command: ControllerCommand, entries: int, respond: Callable[[Sequence[Entry]], Response]) -> Later:
    """Submit a command of so many entries; `respond` makes the response of what became of them, later."""

    def answered(answer: ControllerAnswer | JournalFault) -> None:
        if isinstance(answer, FactsTooLarge):
            reason = f"{answer}: name fewer topics or settings in one request"
            answer = (Refusal(ErrorCode.POLICY_VIOLATION, reason),) * entries
        elif isinstance(answer, CommandFailed):
            reason = "the command failed unexpectedly; the broker's log has the details"
            answer = (Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, reason),) * entries
        elif isinstance(answer, JournalFault):
            answer = (Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(answer)),) * entries
        assert isinstance(answer, tuple) and len(answer) == entries
        try:
            response = respond(answer)
        except Exception:
            call.hang_up()  # rather than leave the client waiting for its timeout
            call.answer(None)
            raise
        call.answer(response)

    call.services.controller.submit(command, answered)
    return LATER


def error_of(entry: Entry) -> ErrorCode:
    return entry.error if isinstance(entry, Refusal) else ErrorCode.NONE


def message_of(entry: Entry) -> str | None:
    """Cut, because it may quote a client, and strings of the older versions end at 32,767 bytes."""
    return entry.message[:LONGEST_MESSAGE] if isinstance(entry, Refusal) and entry.message else None
