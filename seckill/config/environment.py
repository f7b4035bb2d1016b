"""The process's configuration: one frozen value, read once from environment variables. An unknown name stops the start.

A secret should not be in an environment, where other processes can see it. Any variable can be read from a file
instead: SECKILL_SECRET_KEY_FILE names a file with the value of SECKILL_SECRET_KEY.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from seckill.config import kafka_security

PREFIX = "SECKILL_"
FILE_SUFFIX = "_FILE"
KAFKA_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
READ_ELSEWHERE = {
    "SECKILL_READY_FILE", "SECKILL_STACK_NAME", "SECKILL_DATA", "SECKILL_BROKER_NETWORK", "SECKILL_SIGNS_TO",
}  # fmt: skip
"""Variables of the command line and of the stack, which are not part of this configuration."""
DEVELOPMENT_SECRET = "for development only, never for a real sale"  # pragma: allowlist secret
SECRETS = ("secret_key", "provider_secret")
SECRET_BYTES_MIN = 32

BOOLEANS = {"true": True, "1": True, "false": False, "0": False, "": False}
RANGES = {
    "address_bits_v4": (8, 32),
    "address_share_percent": (0, 100),
    "gateway_workers": (1, 64),
    "gateway_connections": (64, 100_000),
}
CHOICES = {"message_language": ("en", "zh-hans")}
HTTP = ("http", "https")
REDIS = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
REDIS_OR_CLUSTER = (*REDIS, "redis+cluster", "rediss+cluster")
SCHEMES = {
    "database_url": ("postgresql", "postgres"),
    "admission_redis_url": REDIS_OR_CLUSTER,
    "gate_redis_url": REDIS_OR_CLUSTER,
    "celery_redis_url": REDIS,
    "callback_url": HTTP,
    "provider_url": HTTP,
    "sinks_url": HTTP,
    "locust_url": HTTP,
}
"""Allowed schemes of the addresses that are set. SECKILL_PUBLIC_URL has a rule of its own in production."""


class BadEnvironment(ValueError):
    """A variable is unknown, or its value is malformed; the text names both."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`SECKILL_DATABASE_URL` is the field `database_url`, and so on. KAFKA_BOOTSTRAP_SERVERS keeps its usual name."""

    kafka_bootstrap_servers: str = "127.0.0.1:9092"
    kafka_security_protocol: str = "PLAINTEXT"  # or SSL, SASL_PLAINTEXT, SASL_SSL (seckill/config/kafka_security.py)
    kafka_sasl_mechanism: str = ""  # PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
    kafka_sasl_username: str = ""
    kafka_sasl_password: str = ""
    kafka_ssl_cafile: str = ""  # PEM file of the authority that signs the brokers' certificates; empty: the system's
    kafka_ssl_certfile: str = ""  # PEM file with our own certificate, if the brokers ask for one
    kafka_ssl_keyfile: str = ""
    kafka_ssl_check_hostname: bool = True
    database_url: str = "postgresql://seckill@127.0.0.1:5433/seckill"
    database_pool: int = 0  # connections shared by the threads of a process; 0: each thread has its own
    statement_timeout_ms: int = 0  # of each SQL statement; 0: none, for tools. Gateways and services set their own
    admission_redis_url: str = "redis://127.0.0.1:6380/0"
    gate_redis_url: str = "redis://127.0.0.1:6380/0"
    celery_redis_url: str = "redis://127.0.0.1:6380/1"
    secret_key: str = DEVELOPMENT_SECRET
    secret_key_fallbacks: str = ""  # former keys, separated by commas; texts signed with them are still accepted
    development: bool = True  # allows fault injection; by default true while the secret key is the published one
    debug: bool = False
    allowed_hosts: str = "127.0.0.1,localhost,[::1]"
    trusted_proxies: str = ""
    address_bits_v4: int = 32  # bits of an IPv4 address that identify a client: with 24, a /24 network is one client
    address_share_percent: int = 25  # share of a sale's units that one address may hold unpaid; 0: no limit
    allow_public_bind: bool = False  # our servers may listen beyond loopback
    public_url: str = "http://127.0.0.1:8000"  # as buyers' browsers see it; https:// outside development
    callback_url: str = ""  # base address at which the payment provider reaches us; empty: public_url
    hsts_seconds: int = 3600  # behind TLS: how long a browser insists on it
    hsts_include_subdomains: bool = False
    hsts_preload: bool = False
    gateway_workers: int = 1  # processes of `seckill up`'s gateway
    gateway_connections: int = 4096  # open connections of each; event streams may use three quarters of them
    sign_in: str = ""  # dotted name of a view that signs buyers in (seckill/web/sign_in.py); empty: the demo's
    token_life_s: int = 12 * 3600
    tokens_valid_from_s: int = 0  # Unix time; tokens and stream addresses issued before it are invalid
    provider_url: str = "http://127.0.0.1:8100"
    provider_secret: str = DEVELOPMENT_SECRET
    sinks_url: str = "http://127.0.0.1:8101"
    locust_url: str = "http://127.0.0.1:8089"  # where the front page finds Locust to start a rush
    payment_ttl_s: int = 900
    purchase_deadline_s: int = 600
    message_language: str = "en"  # language of all messages to buyers: en or zh-hans
    retention_days: int = 30  # how long finished rows are kept, at least 8 (docs/retention.md); 0: for good
    expected_pace: int = 0  # requests per second that inventory is expected to decide, until measured; 0: unknown
    stack_folder: str = ""  # folder of the stack of this process: its socket, its evidence, its reports
    console_hosts: str = ""  # hosts that serve the console; empty: all in development, none in production
    operator: str = ""  # name for the audit trail; empty: the user of the machine
    fault: str = ""  # enabled fault points, e.g. "inventory.after_commit:once"; development only


def check_variables(variables: Mapping[str, str] = os.environ) -> None:
    """Raise `BadEnvironment` if a name is unknown or a value malformed. What only production demands is not checked."""
    _parse_all(variables)


def read(variables: Mapping[str, str] = os.environ) -> Environment:
    environment = _parse_all(variables)
    if not environment.development:
        _check_production(environment)
    return environment


def _parse_all(variables: Mapping[str, str]) -> Environment:
    known = {field.name: str(field.type) for field in fields(Environment)}
    values: dict[str, object] = {}
    for name, text in _with_file_contents(variables):
        if name == KAFKA_VARIABLE:
            values["kafka_bootstrap_servers"] = text
        elif name.startswith(PREFIX) and name not in READ_ELSEWHERE:
            field = name.removeprefix(PREFIX).lower()
            if field not in known:
                raise BadEnvironment(_unknown(name, field, list(known)))
            values[field] = _parse(name, text, known[field])
            _check_scheme(name, field, text)
    values.setdefault("development", values.get("secret_key", DEVELOPMENT_SECRET) == DEVELOPMENT_SECRET)
    environment = Environment(**values)  # type: ignore[arg-type]
    for field, (least, most) in RANGES.items():
        value = getattr(environment, field)
        if not least <= value <= most:
            raise BadEnvironment(f"{PREFIX}{field.upper()} must be {least} to {most}, got {value}")
    for field, choices in CHOICES.items():
        if getattr(environment, field) not in choices:
            wanted, got = " or ".join(choices), getattr(environment, field)
            raise BadEnvironment(f"{PREFIX}{field.upper()} must be {wanted}, got {got!r}")
    fault = kafka_security.find_fault(environment)
    if fault is not None:
        raise BadEnvironment(fault)
    return environment


def _unknown(name: str, field: str, known: list[str]) -> str:
    guesses = get_close_matches(field, known, n=1)
    if guesses:
        return f"{name} is unknown; did you mean {PREFIX}{guesses[0].upper()}?"
    return f"{name} is unknown; known are {', '.join(PREFIX + each.upper() for each in sorted(known))}"


def _parse(name: str, text: str, kind: str) -> object:
    if kind == "bool":
        if text.lower() not in BOOLEANS:
            raise BadEnvironment(f"{name} must be true, false, 1 or 0, got {text!r}")
        return BOOLEANS[text.lower()]
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise BadEnvironment(f"{name} must be an integer, got {text!r}") from None
    return text


def _check_scheme(name: str, field: str, text: str) -> None:
    """The value itself is not printed, because an address may contain a password."""
    allowed = SCHEMES.get(field)
    if text and allowed and "://" in text and urlsplit(text).scheme not in allowed:
        beginnings = " or ".join(f"{scheme}://" for scheme in allowed)
        raise BadEnvironment(f"{name} must begin with {beginnings}, got {urlsplit(text).scheme}://")


def _check_production(environment: Environment) -> None:
    for name in ("fault", "debug"):
        if getattr(environment, name):
            raise BadEnvironment(f"{PREFIX}{name.upper()} is for development only")
    for name in SECRETS:
        secret, variable = getattr(environment, name), PREFIX + name.upper()
        if secret.strip() == DEVELOPMENT_SECRET:
            raise BadEnvironment(
                f"{variable} is not set, or is the published development key: outside development set a secret of at"
                f" least {SECRET_BYTES_MIN} random bytes"
            )
        if len(secret.strip().encode()) < SECRET_BYTES_MIN:
            raise BadEnvironment(
                f"{variable} has {len(secret.strip().encode())} bytes: outside development it needs at least"
                f" {SECRET_BYTES_MIN} random bytes"
            )
    if not environment.public_url.startswith("https://"):
        raise BadEnvironment(
            f"SECKILL_PUBLIC_URL must begin with https:// outside development, got {environment.public_url!r}"
        )


def _with_file_contents(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names and values, where NAME_FILE yields NAME and the content of its file."""
    for name, text in variables.items():
        if not (name.startswith(PREFIX) and name.endswith(FILE_SUFFIX)) or name in READ_ELSEWHERE:
            yield name, text
            continue
        variable = name.removesuffix(FILE_SUFFIX)
        if variable in variables:
            raise BadEnvironment(f"{variable} and {name} are both set; set only one of them")
        try:
            yield variable, Path(text).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadEnvironment(f"{name}: the file {text} cannot be read: {error}") from error
