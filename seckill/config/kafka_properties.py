"""A client.properties file, as Kafka's own tools read it, as our variables SECKILL_KAFKA_….

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="operator" password="…";
    ssl.truststore.type=PEM
    ssl.truststore.location=ca.pem
    service.inventory.sasl.jaas.config=…        # the processes of one service have a principal of their own

librdkafka's names (sasl.username, ssl.ca.location) are accepted, too. A key without effect is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seckill.config.environment import BadEnvironment, check_variables
from seckill.config.kafka_security import LOGIN_MODULES, PREFIX

SERVICES = ("gateway", "inventory", "orders", "notifications", "analytics")
"""Each may have a principal of its own. The file's main settings are those of all others: operators' commands, the
report, and the step that creates the topics."""
BOOTSTRAP = "bootstrap.servers"
TRUST, KEYS = "ssl.truststore", "ssl.keystore"
NAMES = {
    "security.protocol": "SECURITY_PROTOCOL",
    "sasl.mechanism": "SASL_MECHANISM",
    "sasl.mechanisms": "SASL_MECHANISM",
    "sasl.username": "SASL_USERNAME",
    "sasl.password": "SASL_PASSWORD",
    "ssl.ca.location": "SSL_CAFILE",
    f"{TRUST}.location": "SSL_CAFILE",
    "ssl.certificate.location": "SSL_CERTFILE",
    f"{KEYS}.location": "SSL_CERTFILE",
    "ssl.key.location": "SSL_KEYFILE",
}
_PAIR = re.compile(r"((?:\\.|[^\\:=\s])+)\s*[:=\s]?\s*(.*)", re.DOTALL)
_LOGIN = re.compile(r'(username|password)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;"]+))')


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """Variables for all clients, and those that differ for a service."""

    variables: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bootstrap_servers: str = ""

    def variables_of(self, service: str | None) -> dict[str, str]:
        return {**self.variables, **self.services.get(service or "", {})}


def read_kafka_config(path: Path) -> KafkaConfig:
    """Raises `BadEnvironment` with the file, the key and what to do."""
    try:
        pairs = dict(_pairs(path.read_text()))
        config = _configure(pairs)
        for service in (None, *config.services):
            check_variables(config.variables_of(service))
    except (OSError, UnicodeDecodeError) as fault:
        raise BadEnvironment(f"{path} cannot be read: {getattr(fault, 'strerror', None) or fault}") from fault
    except BadEnvironment as fault:
        raise BadEnvironment(f"{path}: {fault}") from fault
    return config


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Java's format: a backslash at the end of a line continues it, and `=`, `:` or a space ends the key."""
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            found = _PAIR.fullmatch(stripped)
            if found is None:
                raise BadEnvironment(f"{stripped!r} is not KEY=VALUE")
            yield _unescaped(found[1]), _unescaped(found[2])


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _configure(pairs: Mapping[str, str]) -> KafkaConfig:
    main: dict[str, str] = {}
    services: dict[str, dict[str, str]] = {}
    for key, value in pairs.items():
        if not key.startswith("service."):
            main[key] = value
            continue
        _, service, own = (*key.split(".", 2), "")[:3]
        if service not in SERVICES:
            raise BadEnvironment(f"{key}: unknown service {service!r}; known are {', '.join(SERVICES)}")
        services.setdefault(service, {})[own] = value
    address = main.pop(BOOTSTRAP, "")
    return KafkaConfig(_variables(main), {name: _variables(each) for name, each in services.items()}, address)


def _variables(pairs: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for key, value in pairs.items():
        if key in NAMES:
            variables[NAMES[key]] = _file(key, value, pairs) if key.endswith(".location") else value
        elif key == "sasl.jaas.config":
            variables |= _login(value)
        elif key == "ssl.endpoint.identification.algorithm":
            variables["SSL_CHECK_HOSTNAME"] = _checks_names(value)
        elif key not in (f"{TRUST}.type", f"{KEYS}.type"):
            known = ", ".join(sorted({*NAMES, BOOTSTRAP, "sasl.jaas.config", "ssl.endpoint.identification.algorithm"}))
            raise BadEnvironment(f"{key} is not supported; known are {known}, and service.NAME.KEY")
    return {PREFIX + name: value for name, value in variables.items()}


def _file(key: str, value: str, pairs: Mapping[str, str]) -> str:
    """Absolute, because the services may run in another folder. Python reads PEM files only."""
    store = key.removesuffix(".location")
    if store in (TRUST, KEYS) and pairs.get(f"{store}.type", "JKS").upper() != "PEM":
        raise BadEnvironment(
            f"{key} must be a PEM file, with {store}.type=PEM; `keytool -exportcert -rfc` writes one from a JKS file"
        )
    return str(Path(value).absolute())


def _login(text: str) -> dict[str, str]:
    """User and password of a JAAS line."""
    module = text.split()[0] if text.strip() else ""
    if module not in LOGIN_MODULES.values():
        known = " or ".join(sorted(set(LOGIN_MODULES.values())))
        raise BadEnvironment(f"sasl.jaas.config must begin with {known}, got {module!r}")
    values = {name: _unescaped(quoted) if quoted else plain for name, quoted, plain in _LOGIN.findall(text)}
    missing = {"username", "password"} - values.keys()
    if missing:
        raise BadEnvironment(f"sasl.jaas.config lacks {' and '.join(sorted(missing))}")
    return {f"SASL_{name.upper()}": value for name, value in values.items()}


def _checks_names(value: str) -> str:
    if value.lower() not in ("", "none", "https"):
        raise BadEnvironment(f"ssl.endpoint.identification.algorithm must be https or empty, got {value!r}")
    return str(value.lower() == "https").lower()
