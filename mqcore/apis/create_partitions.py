"""CreatePartitions: more partitions for topics that exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mqcore.apis.asking import Entry, ask, error_of, message_of
from mqcore.apis.call import Api, Call, Later, Response
from mqcore.controller.commands import CreatePartitions, MorePartitions
from mqcore.identity import BrokerId

API = Api(37, "CreatePartitions", 0, 3)


def handle(request: Any, call: Call) -> Later:
    topics = tuple(map(_more, request.topics))

    def respond(entries: Sequence[Entry]) -> Response:
        return {
            "results": [
                {"name": more.topic, "error_code": error_of(entry), "error_message": message_of(entry)}
                for more, entry in zip(topics, entries, strict=True)
            ]
        }

    return ask(call, CreatePartitions(topics, request.validate_only), len(topics), respond)


def _more(topic: Any) -> MorePartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(map(BrokerId, entry.broker_ids)) for entry in topic.assignments)
    return MorePartitions(topic.name, topic.count, assignments)
