"""Codec: the broker's settings, by Kafka's names. They are checked when they are parsed; an unknown name is an error.

Topic defaults (`log.retention.ms`, …) are not fields of `BrokerConfig`. They are kept by name in `topic_defaults`,
because the table of topic settings (mqcore/log/topic_config.py) owns their types and checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from mqcore.config_addresses import ControllerAddress, Listener, check_protocols, parse_listeners, parse_voters
from mqcore.config_values import BadConfig, abbreviated, host_and_port, parse_value

UNKNOWN_SETTING = "unknown setting; docs/generated/settings.md lists all of them"


def setting(default: Any, doc: str, *, minimum: int | None = None, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"doc": doc, "minimum": minimum, "choices": choices})


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """All settings of one broker. Kafka's setting `a.b.c` is the field `a_b_c`."""

    node_id: int = setting(0, "number of this broker, unique in its cluster", minimum=0)
    cluster_id: str = setting("", "identity of the cluster; generated at the first start if empty")
    listeners: str = setting("PLAINTEXT://127.0.0.1:9092", "comma-separated NAME://HOST:PORT to listen on")
    advertised_listeners: str = setting(
        "", "comma-separated NAME://HOST:PORT for clients to connect to; default: the listeners"
    )
    listener_security_protocol_map: str = setting(
        "", "comma-separated NAME:PLAINTEXT; other protocols are not supported"
    )
    allow_unauthenticated_listeners: bool = setting(
        False, "listen on addresses that other machines can reach; every client may read, write and delete everything"
    )
    inter_broker_listener_name: str = setting(
        "",
        "listener through which brokers copy from each other; 64 of max.connections are reserved for it; the first"
        " of listeners if empty",
    )
    controller_listener_names: str = setting("", "the listener of the controller; required with more than one voter")
    controller_quorum_voters: str = setting(
        "", "comma-separated ID@HOST:PORT of the controllers, 1 or 3; only this broker if empty"
    )
    log_dirs: str = setting("mqcore-data", "the folder for all data; exactly one")
    log_dirs_min_free_bytes: int = setting(
        67108864, "reject produce requests while the disk has less free space", minimum=0
    )
    broker_rack: str = setting("", "rack of this broker, shown to clients")
    metrics_listener: str = setting("", "HOST:PORT of the Prometheus page; no page if empty")

    auto_create_topics_enable: bool = setting(True, "create a missing topic when a client requests its metadata")
    delete_topic_enable: bool = setting(True, "allow topics to be deleted")
    num_partitions: int = setting(1, "partitions of a new topic, if the request does not specify them", minimum=1)
    default_replication_factor: int = setting(
        1, "replicas of a new topic, if the request does not specify them", minimum=1
    )

    socket_request_max_bytes: int = setting(104857600, "largest accepted request", minimum=1024)
    queued_max_requests: int = setting(500, "requests of one connection that may wait for their responses", minimum=1)
    queued_max_request_bytes: int = setting(67108864, "bytes of partly received requests on all connections", minimum=1)
    queued_max_response_bytes: int = setting(
        67108864, "bytes of responses that clients have not read yet, on all connections", minimum=1
    )
    max_connections: int = setting(2000, "open connections", minimum=1)
    max_connections_per_ip: int = setting(
        200, "open connections from one address, or from one /64 with IPv6", minimum=1
    )
    first_request_timeout_ms: int = setting(10000, "close a connection that sends no request within", minimum=100)
    connections_max_idle_ms: int = setting(600000, "close a connection that has been idle for", minimum=1000)
    request_receive_timeout_ms: int = setting(
        30000, "close a connection whose request takes longer to arrive", minimum=100
    )
    response_send_timeout_ms: int = setting(
        30000, "close a connection that has not read its responses for", minimum=100
    )
    fetch_max_bytes: int = setting(57671680, "largest fetch response", minimum=1024)

    producer_id_expiration_ms: int = setting(
        86400000, "forget an idempotent producer that has been idle for", minimum=1
    )
    transaction_max_timeout_ms: int = setting(900000, "longest transaction timeout a client may ask for", minimum=1)

    controller_quorum_fetch_timeout_ms: int = setting(
        2000, "a controller that hears nothing from the leader for this long calls an election", minimum=50
    )
    controller_quorum_election_timeout_ms: int = setting(
        1000, "how long an election may take; up to twice as long before the first", minimum=50
    )
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        20971520, "write a snapshot of the metadata after this many bytes of records", minimum=1
    )
    broker_session_timeout_ms: int = setting(
        4500, "the controller fences a broker that it has not heard of for this long", minimum=100
    )
    broker_heartbeat_interval_ms: int = setting(500, "interval between heartbeats to the controller", minimum=10)
    auto_leader_rebalance_enable: bool = setting(True, "give leadership back to the first replica of a partition")
    leader_imbalance_check_interval_seconds: int = setting(
        300, "interval between checks for partitions that another replica leads", minimum=1
    )
    replica_lag_time_max_ms: int = setting(
        30000, "a follower that has not caught up for this long leaves the in-sync replicas", minimum=100
    )
    replica_fetch_wait_max_ms: int = setting(500, "how long a follower's fetch waits for new records", minimum=1)
    replica_fetch_max_bytes: int = setting(1048576, "bytes of one partition in one follower's fetch", minimum=1024)
    replica_fetch_response_max_bytes: int = setting(10485760, "bytes of one follower's fetch", minimum=1024)
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5000, "interval between checkpoints of the high watermarks", minimum=1
    )
    replica_selector_class: str = setting(
        "",
        "RackAwareReplicaSelector sends a consumer to an in-sync replica in its rack; empty: to the leader",
        choices=("", "RackAwareReplicaSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
    )

    offsets_topic_num_partitions: int = setting(12, "partitions of __consumer_offsets", minimum=1)
    offsets_topic_replication_factor: int = setting(
        -1, "replicas of __consumer_offsets; -1 stands for one on each controller", minimum=-1
    )
    offsets_topic_segment_bytes: int = setting(16777216, "segment size of __consumer_offsets", minimum=1024)
    offsets_retention_minutes: int = setting(10080, "keep the offsets of an empty group for", minimum=1)
    offsets_retention_check_interval_ms: int = setting(600000, "interval between checks for expired offsets", minimum=1)
    offset_metadata_max_bytes: int = setting(4096, "longest metadata that may be committed with an offset", minimum=0)
    group_min_session_timeout_ms: int = setting(1000, "shortest session timeout that a member may request", minimum=1)
    group_max_session_timeout_ms: int = setting(1800000, "longest session timeout that a member may request", minimum=1)
    group_initial_rebalance_delay_ms: int = setting(
        0, "how long the first rebalance of an empty group waits for more members", minimum=0
    )
    group_max_size: int = setting(2147483647, "members of one group", minimum=1)
    group_memory_max_bytes: int = setting(67108864, "memory for the members and offsets of all groups", minimum=1048576)

    log_retention_check_interval_ms: int = setting(300000, "interval between checks for expired segments", minimum=1)
    log_flush_offset_checkpoint_interval_ms: int = setting(
        60000, "interval between checkpoints of how far the logs are durable", minimum=1
    )
    log_cleaner_enable: bool = setting(True, "compact topics with cleanup.policy=compact")
    log_cleaner_backoff_ms: int = setting(15000, "interval between checks for logs to compact", minimum=1)
    log_cleaner_dedupe_buffer_size: int = setting(
        134217728, "memory for the key map of one compaction", minimum=1048576
    )
    controlled_shutdown_timeout_ms: int = setting(
        10000, "how long a stop waits for requests that are being served", minimum=0
    )

    topic_defaults: Mapping[str, str] = field(default_factory=dict)

    def listener_list(self) -> tuple[Listener, ...]:
        bound = parse_listeners(self.listeners, "listeners")
        advertised = (
            parse_listeners(self.advertised_listeners, "advertised.listeners") if self.advertised_listeners else {}
        )
        for name in advertised:
            if name not in bound:
                raise BadConfig(f"advertised.listeners contains {name}, which is not one of listeners")
        check_protocols(self.listener_security_protocol_map, bound)
        return tuple(
            Listener(name, host, port, *advertised.get(name, (host, port))) for name, (host, port) in bound.items()
        )

    @property
    def controller_listener(self) -> str:
        """The name of the listener for other controllers and brokers; empty in a cluster of one without any."""
        return self.controller_listener_names.strip().upper()

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener that other brokers copy from."""
        names = [listener.name for listener in self.listener_list() if listener.name != self.controller_listener]
        return self.inter_broker_listener_name.upper() or names[0]

    def voters(self) -> dict[int, ControllerAddress]:
        """The addresses of all controllers by their node ids; empty if this broker is the only one."""
        return parse_voters(self.controller_quorum_voters, "controller.quorum.voters")

    @property
    def offsets_topic_replicas(self) -> int:
        factor = self.offsets_topic_replication_factor
        return factor if factor > 0 else max(1, len(self.voters()))


def settings() -> dict[str, Field[Any]]:
    """All settings of the broker itself, by Kafka's names."""
    return {spec.name.replace("_", "."): spec for spec in fields(BrokerConfig) if spec.name != "topic_defaults"}


def as_text(value: object) -> str:
    """A value in the notation of Kafka's tools."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_config(
    text: str, overrides: Sequence[str] = (), check_topic_default: Callable[[str, str], str | None] | None = None
) -> BrokerConfig:
    """Parse a TOML text and apply `name=value` overrides to it.

    `check_topic_default(name, value)` returns what is wrong with a topic default, or None. It raises KeyError for an
    unknown name.
    """
    pairs = _parse_toml(text) if text else {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise BadConfig(f"--set must be NAME=VALUE, got {override!r}")
        pairs[name.strip()] = value.strip()
    known = settings()
    values: dict[str, Any] = {}
    topic_defaults: dict[str, str] = {}
    for name, value in pairs.items():
        if name in known:
            values[known[name].name] = parse_value(known[name], name, value)
        else:
            topic_defaults[name] = _topic_default(name, as_text(value), check_topic_default)
    config = BrokerConfig(**values, topic_defaults=topic_defaults)
    names = {listener.name for listener in config.listener_list()}
    if config.inter_broker_listener_name.upper() not in {"", *names}:
        raise BadConfig(f"inter.broker.listener.name={config.inter_broker_listener_name} is not one of listeners")
    _check_cluster(config, names)
    batch_bytes = int(topic_defaults.get("message.max.bytes", 0))
    if batch_bytes > config.socket_request_max_bytes:
        raise BadConfig(
            f"message.max.bytes must be at most socket.request.max.bytes={config.socket_request_max_bytes},"
            f" got {batch_bytes}: no request could carry such a batch"
        )
    if config.metrics_listener:
        host_and_port(config.metrics_listener, "metrics.listener")
    return config


def _check_cluster(config: BrokerConfig, listeners: set[str]) -> None:
    voters, controller = config.voters(), config.controller_listener
    if controller and controller not in listeners:
        raise BadConfig(f"controller.listener.names={config.controller_listener_names} is not one of listeners")
    if controller and listeners == {controller}:
        raise BadConfig("listeners must contain one for clients besides that of the controller")
    if controller and config.inter_broker_listener_name.upper() == controller:
        raise BadConfig(f"inter.broker.listener.name={controller} is the listener of the controller")
    if len(voters) not in (0, 1, 3):
        raise BadConfig(f"controller.quorum.voters must name 1 or 3 nodes, got {len(voters)}")
    if voters and config.node_id not in voters:
        raise BadConfig(f"node.id={config.node_id} is not in controller.quorum.voters")
    if len(voters) > 1 and not controller:
        raise BadConfig("controller.listener.names must name the listener that the other controllers connect to")


def _parse_toml(text: str) -> dict[str, Any]:
    import tomllib  # here, because a broker without a file starts 3 ms faster without it

    try:
        return dict(_flatten(tomllib.loads(text)))
    except (ValueError, RecursionError) as error:  # ValueError also for a number with thousands of digits
        raise BadConfig(f"the configuration file is not valid TOML: {error}") from error


def _topic_default(name: str, value: str, check: Callable[[str, str], str | None] | None) -> str:
    try:
        error = UNKNOWN_SETTING if check is None else check(name, value)
    except KeyError:
        error = UNKNOWN_SETTING
    if error:
        raise BadConfig(f"{abbreviated(name)}={abbreviated(value)}: {error}")
    return value


def _flatten(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            pairs += _flatten(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, ",".join(map(str, value)) if isinstance(value, list) else value))
    return pairs
