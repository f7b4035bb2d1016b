"""DeleteTopics: by name, and since version 6 also by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mqcore.apis.asking import Entry, ask, error_of, message_of
from mqcore.apis.call import Api, Call, Later, Response
from mqcore.controller.commands import DeleteTopics, TopicGone

API = Api(20, "DeleteTopics", 1, 6)


def handle(request: Any, call: Call) -> Later:
    if call.version >= 6:
        topics = tuple((topic.name, topic.topic_id) for topic in request.topics)
    else:
        topics = tuple((name, None) for name in request.topic_names)

    def respond(entries: Sequence[Entry]) -> Response:
        return {"responses": [_result(*pair) for pair in zip(topics, entries, strict=True)]}

    return ask(call, DeleteTopics(topics), len(topics), respond)


def _result(asked: tuple[str | None, UUID | None], entry: Entry) -> Response:
    name, topic_id = (entry.name, entry.topic_id) if isinstance(entry, TopicGone) else asked
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": error_of(entry),
        "error_message": message_of(entry),
    }
