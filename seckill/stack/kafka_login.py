"""How the processes of a stack log in to an external Kafka: each with the principal of its service."""

from __future__ import annotations

from collections.abc import Mapping

from seckill.config.kafka_properties import KafkaConfig
from seckill.config.kafka_security import PREFIX
from seckill.messaging.kafka_acls import principal_of


def with_login(environment: Mapping[str, str], config: KafkaConfig | None, process: str | None) -> dict[str, str]:
    """The environment of a process of the stack, or without its name of an operator's command. Only clients of Kafka
    get a password."""
    principal = principal_of(process)
    others = {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
    if process is not None and principal is None:
        return others
    return dict(environment) if config is None else others | config.variables_of(principal)
