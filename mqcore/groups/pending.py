"""Machine: callers that wait for the answer of one group, or of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from mqcore.coordination.journal import CommandFailed, FactsTooLarge, JournalFault, LeadershipLost
from mqcore.groups.commands import A, CommandWithAnswer, GroupAnswer
from mqcore.wire.errors import ErrorCode


class PendingCommand(Generic[A]):
    """A command under way, with the caller that gets its answer."""

    __slots__ = ("_answer_type", "_on_answer")

    def __init__(self, command: CommandWithAnswer[A], on_answer: Callable[[A | ErrorCode], None]) -> None:
        self._answer_type = command.answer_type()
        self._on_answer = on_answer

    def answer(self, answer: GroupAnswer | JournalFault) -> None:
        if isinstance(answer, JournalFault):
            self._on_answer(error_of(answer))
        else:
            assert isinstance(answer, self._answer_type), f"expected {self._answer_type.__name__}, got {answer}"
            self._on_answer(answer)


class PendingCommands(Generic[A]):
    """Commands to several groups. Their caller gets all answers at once, in the order of the commands."""

    def __init__(self, count: int, on_answers: Callable[[list[A | ErrorCode]], None]) -> None:
        self._count = count
        self._on_answers = on_answers
        self._answers: dict[int, A | ErrorCode] = {}
        if not count:
            on_answers([])

    def answer(self, index: int, answer: A | ErrorCode) -> None:
        assert index not in self._answers, "a command is answered once"
        self._answers[index] = answer
        if len(self._answers) == self._count:
            self._on_answers([self._answers[index] for index in range(self._count)])


def error_of(fault: JournalFault) -> ErrorCode:
    match fault:
        case CommandFailed():
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case FactsTooLarge():
            return ErrorCode.POLICY_VIOLATION  # a retry of the same request would fail again
        case LeadershipLost():
            return ErrorCode.NOT_COORDINATOR
        case _:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
