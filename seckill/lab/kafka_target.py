"""Shell: an Apache Kafka cluster for an experiment, in place of the stack's own broker.

An experiment begins with an empty database, and the records of an earlier sale would be foreign to it. So it deletes
the sale's topics first, but only in a cluster that was started for experiments or if the caller asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient

from seckill.config.kafka_clients import client_options, replace_login
from seckill.config.kafka_properties import KafkaConfig, read_kafka_config
from seckill.messaging import log_bounds
from seckill.messaging.topics import TOPICS
from seckill.stack import control
from seckill.stack.child_processes import wait_until
from seckill.stack.control import StackFault
from seckill.stack.services import Layout

CLIENT_FILE, ADMIN_FILE = "client.properties", "admin.properties"
"""What `python -m loadtest.kafka_cluster` writes: the logins of the sale, and that of an administrator."""
NETWORK_COMMAND = "network"
"""The program that runs the nodes passes `faults` on to the relay between them."""
DELETE_SECONDS_MAX = 60.0
REQUEST_MS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """`nodes` is the folder of `python -m loadtest.kafka_cluster`, whose processes an experiment may stop."""

    address: str
    config_file: Path | None = None
    nodes: Path | None = None
    may_delete: bool = False
    config: KafkaConfig = field(default_factory=KafkaConfig)

    def log_in(self) -> None:
        """This process opens clients, too: as the administrator of an experimental cluster, else as an operator."""
        admin = None if self.nodes is None else self.nodes / ADMIN_FILE
        login = read_kafka_config(admin) if admin is not None and admin.exists() else self.config
        replace_login(login.variables_of(None))

    def empty_topics(self) -> None:
        """Delete the topics of an earlier sale. Raises `StackFault` if they have records and must stay."""
        admin = KafkaAdminClient(**client_options(self.address), request_timeout_ms=REQUEST_MS_MAX)
        try:
            known = _our_topics(admin)
            if known and not (self.may_delete or self.nodes) and _have_records(admin, known):
                raise StackFault(
                    f"the topics in {self.address} have records of another sale, which an experiment would read as its"
                    " own; --recreate-topics deletes and creates them"
                )
            if known and (self.may_delete or self.nodes):
                admin.delete_topics(known)
                wait_until(lambda: not _our_topics(admin), "the topics to be deleted", DELETE_SECONDS_MAX, poll_s=0.2)
        finally:
            admin.close()

    def send(self, command: control.Command) -> control.Reply:
        """A command to the program that runs the nodes. Raises `StackFault`."""
        assert self.nodes is not None
        try:
            reply = control.send_command(Layout(self.nodes), command)
        except OSError as error:
            raise StackFault(f"no Kafka cluster runs in {self.nodes}: {error}") from error
        if "error" in reply:
            raise StackFault(f"{command}: {reply['error']}")
        return reply


def choose_kafka(
    address: str | None, config_file: Path | None, nodes: Path | None, *, may_delete: bool
) -> KafkaTarget | None:
    """The cluster that the options of a command name; None if they name none. Raises `BadEnvironment`."""
    if nodes is not None:
        nodes = nodes.absolute()
        config_file = config_file or nodes / CLIENT_FILE
    config = KafkaConfig() if config_file is None else read_kafka_config(config_file)
    address = address or config.bootstrap_servers
    if not address:
        return None
    return KafkaTarget(address, config_file and config_file.absolute(), nodes, may_delete, config)


def _our_topics(admin: Any) -> list[str]:
    names = [name for topic in TOPICS.values() for name in (topic.name, topic.dead)]
    return [each["name"] for each in admin.describe_topics(names) if not each["error_code"]]


def _have_records(admin: Any, topics: list[str]) -> bool:
    ends = log_bounds.end_offsets(admin, log_bounds.online_partitions(admin, topics))
    return any(ends.values())
