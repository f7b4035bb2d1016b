"""DeleteTopics: delete topics by name or by id.

Versions: 5 adds error messages; 6 moves the names into a list of topics that may have an id instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.controller_requests import EntryOutcome, error_of, message_of, submit
from mqcore.controller.commands import DeletedTopic, DeleteTopics

if TYPE_CHECKING:
    from mqcore.wire.requests.delete_topics import DeleteTopicsRequest

API = Api(20, "DeleteTopics", 1, 6, forwarded=True)

TOPIC_IDS = 6


def handle(request: DeleteTopicsRequest, call: Call) -> Later:
    topics: tuple[tuple[str | None, UUID | None], ...]
    if call.version >= TOPIC_IDS:
        topics = tuple((topic.name, topic.topic_id) for topic in request.topics)
    else:
        topics = tuple((name, None) for name in request.topic_names)

    def respond(outcomes: Sequence[EntryOutcome]) -> Response:
        return {"responses": [_result(*pair) for pair in zip(topics, outcomes, strict=True)]}

    return submit(call, DeleteTopics(topics), len(topics), respond)


def _result(requested: tuple[str | None, UUID | None], outcome: EntryOutcome) -> Response:
    name, topic_id = (outcome.name, outcome.topic_id) if isinstance(outcome, DeletedTopic) else requested
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": error_of(outcome),
        "error_message": message_of(outcome),
    }
