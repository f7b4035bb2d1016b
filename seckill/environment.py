"""Where everything is: one frozen value, read once from the environment. An unknown SECKILL_ name stops the start.

What should not stand in an environment, which others can look at, stands in a file: SECKILL_SECRET_KEY_FILE names the
one with SECKILL_SECRET_KEY in it, and so for every name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

PREFIX = "SECKILL_"
IN_A_FILE = "_FILE"
OF_THE_STACK = {"SECKILL_READY_FILE", "SECKILL_STACK_NAME"}
DEVELOPMENT_SECRET = "for development only, never for a real sale"  # pragma: allowlist secret
RANGES = {"address_bits_v4": (8, 32), "address_share_percent": (0, 100)}
SECRETS = ("secret_key", "provider_secret")
SECRET_BYTES_MIN = 32


class BadEnvironment(ValueError):
    """A variable that is unknown or makes no sense."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`SECKILL_DATABASE_URL` is the field `database_url`, and so on; KAFKA_BOOTSTRAP_SERVERS keeps its usual name."""

    kafka_bootstrap_servers: str = "127.0.0.1:9092"
    database_url: str = "postgresql://seckill@127.0.0.1:5433/seckill"
    database_pool: int = 0  # connections that the threads of a process share; 0: each has its own
    statement_timeout_ms: int = 0  # of each SQL statement; 0: none, for tools. Gateways and services set their own
    admission_redis_url: str = "redis://127.0.0.1:6380/0"
    gate_redis_url: str = "redis://127.0.0.1:6380/0"
    celery_redis_url: str = "redis://127.0.0.1:6380/1"
    secret_key: str = DEVELOPMENT_SECRET
    development: bool = True  # faults may be injected; unless it is set: whether the key is the one everybody knows
    debug: bool = False
    allowed_hosts: str = "127.0.0.1,localhost,[::1]"
    trusted_proxies: str = ""
    address_bits_v4: int = 32  # of an IPv4 address that count as one client: 24 counts a whole /24 together
    address_share_percent: int = 25  # of a sale's units that one address may hold unpaid; 0: no limit
    allow_public_bind: bool = False  # servers of ours may listen beyond loopback
    public_url: str = "http://127.0.0.1:8000"  # as buyers' browsers see it; https:// outside development
    callback_url: str = ""  # base address at which the payment provider reaches us; empty: public_url
    hsts_seconds: int = 3600  # behind TLS: how long a browser insists on it
    hsts_include_subdomains: bool = False
    hsts_preload: bool = False
    live_url: str = ""  # of the process that streams events; empty: the same as of the gateway
    sign_in: str = ""  # dotted name of your view that signs buyers in (seckill/signing_in.py); empty: the demo's
    token_life_s: int = 12 * 3600
    tokens_valid_from_s: int = 0  # Unix time; tokens and addresses of streams given out before it are void
    provider_url: str = "http://127.0.0.1:8100"
    provider_secret: str = DEVELOPMENT_SECRET
    sinks_url: str = "http://127.0.0.1:8101"
    payment_ttl_s: int = 900
    purchase_deadline_s: int = 600
    retention_days: int = 30  # what is finished is kept so long, 8 at least (docs/retention.md); 0: for good
    expected_pace: int = 0  # requests a second inventory is expected to decide, until that has been seen; 0: not known
    stack_folder: str = ""  # of the stack this process belongs to: its socket, its evidence, its reports
    console_hosts: str = ""  # hosts on which the console is served; empty: all in development, none elsewhere
    operator: str = ""  # who acts, for the audit trail; else the user of the machine
    fault: str = ""  # named fault points, e.g. "inventory.after_commit:once"; development only


def read(variables: Mapping[str, str] = os.environ) -> Environment:
    known = {field.name: field.type for field in fields(Environment)}
    values: dict[str, object] = {}
    for name, text in _contents(variables):
        if name == "KAFKA_BOOTSTRAP_SERVERS":
            values["kafka_bootstrap_servers"] = text
        elif name.startswith(PREFIX) and name not in OF_THE_STACK:
            field = name.removeprefix(PREFIX).lower()
            if field not in known:
                raise BadEnvironment(f"{name} is unknown; known are {', '.join(sorted(known))}")
            values[field] = _parse(name, text, str(known[field]))
    values.setdefault("development", values.get("secret_key", DEVELOPMENT_SECRET) == DEVELOPMENT_SECRET)
    environment = Environment(**values)  # type: ignore[arg-type]
    for name, (least, most) in RANGES.items():
        if not least <= getattr(environment, name) <= most:
            raise BadEnvironment(f"{PREFIX}{name.upper()} must be {least} to {most}, got {getattr(environment, name)}")
    if not environment.development:
        _check_production(environment)
    return environment


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
            f"SECKILL_PUBLIC_URL={environment.public_url}: outside development it must begin with https://"
        )


def _contents(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names and values, of files what is in them."""
    for name, text in variables.items():
        if not (name.startswith(PREFIX) and name.endswith(IN_A_FILE)) or name in OF_THE_STACK:
            yield name, text
            continue
        told = name.removesuffix(IN_A_FILE)
        if told in variables:
            raise BadEnvironment(f"{told} and {name} are both set; which one is meant?")
        try:
            yield told, Path(text).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadEnvironment(f"{name}: {text} cannot be read: {error}") from error


def _parse(name: str, text: str, kind: str) -> object:
    try:
        if kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False, "": False}[text.lower()]
        return int(text) if kind == "int" else text
    except (ValueError, KeyError) as error:
        raise BadEnvironment(f"{name}={text!r} is no {kind}") from error
