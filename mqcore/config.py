"""Codec: the broker's settings, by Kafka's names, checked when read. An unknown name stops the start.

Topic defaults (`log.retention.ms`, …) are not fields here: they are kept by name in `topic_defaults`, because
the table of topic settings (mqcore/log/config.py) owns their types and checks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any


class BadConfig(ValueError):
    """A setting that is unknown or makes no sense; the text says what to do."""


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LONGEST_TEXT = 1000
_LONG_UNITS = ("_ms", "_bytes")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)  # int() would also take 1_000


def setting(default: Any, doc: str, *, minimum: int | None = None, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"doc": doc, "minimum": minimum, "choices": choices})


@dataclass(frozen=True, slots=True)
class Listener:
    """Where clients connect, and the address they are told to come back to."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """All settings of one broker. `a.b.c` in Kafka's words is the field `a_b_c`."""

    node_id: int = setting(0, "number of this broker, unique in its cluster", minimum=0)
    cluster_id: str = setting("", "identity of the cluster; made up at the first start when empty")
    listeners: str = setting("PLAINTEXT://127.0.0.1:9092", "comma-separated NAME://HOST:PORT to listen on")
    advertised_listeners: str = setting("", "comma-separated NAME://HOST:PORT told to clients; default: the listeners")
    listener_security_protocol_map: str = setting("", "comma-separated NAME:PLAINTEXT; other protocols come later")
    allow_unauthenticated_listeners: bool = setting(
        False, "listen on addresses that other machines can reach; every client may read, write and delete everything"
    )
    inter_broker_listener_name: str = setting("", "listener for which 64 of max.connections are reserved; empty: none")
    log_dirs: str = setting("mqcore-data", "folder of all data; exactly one")
    log_dirs_min_free_bytes: int = setting(67108864, "refuse produces when the disk has less room than this", minimum=0)
    broker_rack: str = setting("", "rack of this broker, shown to clients")
    metrics_listener: str = setting("", "HOST:PORT of the Prometheus page; empty: none")

    auto_create_topics_enable: bool = setting(True, "make a topic when its metadata are asked for")
    delete_topic_enable: bool = setting(True, "allow topics to be deleted")
    num_partitions: int = setting(1, "partitions of a topic when nobody says", minimum=1)
    default_replication_factor: int = setting(1, "replicas of a topic when nobody says", minimum=1)

    socket_request_max_bytes: int = setting(104857600, "largest request accepted", minimum=1024)
    queued_max_requests: int = setting(500, "requests of one connection that may wait for their answers", minimum=1)
    queued_max_request_bytes: int = setting(67108864, "bytes of half-received requests, all connections", minimum=1)
    queued_max_response_bytes: int = setting(
        67108864, "bytes of responses that clients have not read, all connections", minimum=1
    )
    max_connections: int = setting(2000, "connections at a time", minimum=1)
    max_connections_per_ip: int = setting(
        200, "connections of one address (with IPv6, of one /64) at a time", minimum=1
    )
    first_request_timeout_ms: int = setting(10000, "longest time from connecting to the first request", minimum=100)
    connections_max_idle_ms: int = setting(600000, "close a connection without requests after", minimum=1000)
    request_receive_timeout_ms: int = setting(30000, "longest time for one request to arrive", minimum=100)
    response_send_timeout_ms: int = setting(30000, "close a reader that takes nothing for this long", minimum=100)
    fetch_max_bytes: int = setting(57671680, "most bytes in one fetch response", minimum=1024)

    producer_id_expiration_ms: int = setting(86400000, "forget a silent idempotent producer after", minimum=1)
    transaction_max_timeout_ms: int = setting(900000, "longest transaction timeout a client may ask for", minimum=1)

    offsets_topic_num_partitions: int = setting(12, "partitions of __consumer_offsets", minimum=1)
    offsets_topic_replication_factor: int = setting(1, "replicas of __consumer_offsets", minimum=1)
    offsets_topic_segment_bytes: int = setting(16777216, "segment size of __consumer_offsets", minimum=1024)
    offsets_retention_minutes: int = setting(10080, "keep offsets of an empty group for", minimum=1)
    offsets_retention_check_interval_ms: int = setting(600000, "look for expired offsets every", minimum=1)
    offset_metadata_max_bytes: int = setting(4096, "longest text kept with an offset", minimum=0)
    group_min_session_timeout_ms: int = setting(1000, "shortest session a member may ask for", minimum=1)
    group_max_session_timeout_ms: int = setting(1800000, "longest session a member may ask for", minimum=1)
    group_initial_rebalance_delay_ms: int = setting(0, "an empty group waits so long for more members", minimum=0)
    group_max_size: int = setting(2147483647, "most members of a group", minimum=1)
    group_memory_max_bytes: int = setting(67108864, "memory of the members and offsets of all groups", minimum=1048576)

    log_retention_check_interval_ms: int = setting(300000, "look for segments to delete every", minimum=1)
    log_flush_offset_checkpoint_interval_ms: int = setting(
        60000, "write down how far logs are durable every", minimum=1
    )
    log_cleaner_enable: bool = setting(True, "compact topics with cleanup.policy=compact")
    log_cleaner_backoff_ms: int = setting(15000, "look for logs to compact every", minimum=1)
    log_cleaner_dedupe_buffer_size: int = setting(134217728, "memory of one compaction's key map", minimum=1048576)
    controlled_shutdown_timeout_ms: int = setting(10000, "at a stop, wait for requests under way for", minimum=0)

    topic_defaults: Mapping[str, str] = field(default_factory=dict)

    def listener_list(self) -> tuple[Listener, ...]:
        bound = _addresses(self.listeners, "listeners")
        told = _addresses(self.advertised_listeners, "advertised.listeners") if self.advertised_listeners else {}
        for name in told:
            if name not in bound:
                raise BadConfig(f"advertised.listeners names {name}, which is not among listeners")
        _check_protocols(self.listener_security_protocol_map, bound)
        return tuple(Listener(name, host, port, *told.get(name, (host, port))) for name, (host, port) in bound.items())


def settings() -> dict[str, Field[Any]]:
    """Kafka's name → field, for every setting of the broker itself."""
    return {spec.name.replace("_", "."): spec for spec in fields(BrokerConfig) if spec.name != "topic_defaults"}


def as_text(value: object) -> str:
    """A value as Kafka's tools write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(
    text: str, overrides: Sequence[str] = (), check_topic_default: Callable[[str, str], str | None] | None = None
) -> BrokerConfig:
    """Settings of a TOML text, then `name=value` overrides. `check_topic_default(name, value)` says what is wrong
    with a topic default, None if nothing; it raises KeyError for a name it does not know either."""
    try:
        pairs = dict(_flatten(tomllib.loads(text)))
    except (ValueError, RecursionError) as error:  # ValueError: also of a number with thousands of digits
        raise BadConfig(f"the configuration file is no TOML: {error}") from error
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise BadConfig(f"--set wants name=value, got {override!r}")
        pairs[name.strip()] = value.strip()
    known = settings()
    values: dict[str, Any] = {}
    topic_defaults: dict[str, str] = {}
    for name, value in pairs.items():
        if name in known:
            values[known[name].name] = parse(known[name], name, value)
        else:
            topic_defaults[name] = _topic_default(name, as_text(value), check_topic_default)
    config = BrokerConfig(**values, topic_defaults=topic_defaults)
    names = {listener.name for listener in config.listener_list()}
    if config.inter_broker_listener_name.upper() not in {"", *names}:
        raise BadConfig(f"inter.broker.listener.name={config.inter_broker_listener_name} is not among listeners")
    batch_bytes = int(topic_defaults.get("message.max.bytes", 0))
    if batch_bytes > config.socket_request_max_bytes:
        raise BadConfig(f"message.max.bytes={batch_bytes} is above socket.request.max.bytes")
    if config.metrics_listener:
        host_and_port(config.metrics_listener, "metrics.listener")
    return config


def parse(spec: Field[Any], name: str, value: object) -> Any:
    """One value in the type of its field, or BadConfig."""
    try:
        if spec.type in ("int", int):
            number = value if isinstance(value, int) and not isinstance(value, bool) else whole_number(str(value))
            minimum = spec.metadata["minimum"]
            if minimum is not None and number < minimum:
                raise BadConfig(f"{name}={number} is below {minimum}")
            maximum = LONG_MAX if spec.name.endswith(_LONG_UNITS) else INT_MAX
            if number > maximum:
                raise BadConfig(f"{name}={shortened(number)} is above {maximum}")
            return number
        if spec.type in ("bool", bool):
            return {"true": True, "false": False}[str(value).lower()]
        return _text(name, str(value))
    except (ValueError, KeyError) as error:
        if isinstance(error, BadConfig):
            raise
        wanted = "true or false" if spec.type in ("bool", bool) else "a whole number"
        raise BadConfig(f"{name} must be {wanted}, got {shortened(value)!r}") from error


def whole_number(text: str) -> int:
    """In decimal, as Kafka reads it; `ValueError` for anything else."""
    if not _WHOLE_NUMBER.fullmatch(text.strip()):
        raise ValueError("must be a whole number")
    return int(text)


def shortened(value: object) -> str:
    """For a message of one line."""
    if isinstance(value, int) and abs(value) > 10**40:
        return "a number of more than 40 digits"  # Python refuses to print one of more than 4,300
    text = str(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _text(name: str, value: str) -> str:
    if "\0" in value:
        raise BadConfig(f"{name} contains a zero byte")
    if name == "log.dirs":
        return value  # a folder's name need not be UTF-8
    if len(value) > LONGEST_TEXT:
        raise BadConfig(f"{name} has {len(value)} characters, at most {LONGEST_TEXT} are allowed")
    if not value.isprintable():
        raise BadConfig(f"{name} contains a character that cannot be printed: {shortened(value)!a}")
    return value


def _topic_default(name: str, value: str, check: Callable[[str, str], str | None] | None) -> str:
    try:
        wrong = "unknown setting" if check is None else check(name, value)
    except KeyError:
        wrong = "unknown setting"
    if wrong:
        raise BadConfig(f"{shortened(name)}={shortened(value)}: {wrong}")
    return value


def _flatten(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            pairs += _flatten(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, ",".join(map(str, value)) if isinstance(value, list) else value))
    return pairs


def _addresses(text: str, setting_name: str) -> dict[str, tuple[str, int]]:
    addresses: dict[str, tuple[str, int]] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = entry.partition("://")
        if not separator or not name:
            raise BadConfig(f"{setting_name}: {entry!r} is not NAME://HOST:PORT")
        if name.upper() in addresses:
            raise BadConfig(f"{setting_name}: {name} is there twice")
        addresses[name.upper()] = host_and_port(address, setting_name)
    if not addresses:
        raise BadConfig(f"{setting_name} is empty")
    return addresses


def host_and_port(address: str, setting_name: str) -> tuple[str, int]:
    """Of HOST:PORT or [HOST]:PORT."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise BadConfig(f"{setting_name}: {shortened(address)!r} is not HOST:PORT")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise BadConfig(f"{setting_name}: {shortened(host)!r} is not the name of a host: {error}") from error
    return host.strip("[]"), int(port)


def _check_protocols(text: str, bound: Mapping[str, object]) -> None:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = entry.partition(":")
        if protocol.upper() != "PLAINTEXT":
            raise BadConfig(f"listener.security.protocol.map: {entry}: only PLAINTEXT is served yet")
        if name.upper() not in bound:
            continue  # Kafka, too, lets the map name listeners that are not used
