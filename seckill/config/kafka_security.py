"""How our clients prove to a Kafka cluster who they are: the rules for SECKILL_KAFKA_…, and Spark's words for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seckill.config.environment import Environment

PREFIX = "SECKILL_KAFKA_"
VARIABLES = (
    "SECURITY_PROTOCOL", "SASL_MECHANISM", "SASL_USERNAME", "SASL_PASSWORD",
    "SSL_CAFILE", "SSL_CERTFILE", "SSL_KEYFILE", "SSL_CHECK_HOSTNAME",
)  # fmt: skip
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
FILES = ("SSL_CAFILE", "SSL_CERTFILE", "SSL_KEYFILE")
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def uses_sasl(environment: Environment) -> bool:
    return environment.kafka_security_protocol.startswith("SASL_")


def uses_tls(environment: Environment) -> bool:
    return environment.kafka_security_protocol.endswith("SSL")


def find_fault(environment: Environment) -> str | None:
    """What is wrong with the SECKILL_KAFKA_… variables, in one line that never contains the password."""
    protocol = environment.kafka_security_protocol
    if protocol not in PROTOCOLS:
        return f"{PREFIX}SECURITY_PROTOCOL must be {_one_of(PROTOCOLS)}, got {protocol!r}"
    return _find_sasl_fault(environment) or _find_tls_fault(environment)


def _find_sasl_fault(environment: Environment) -> str | None:
    protocol, mechanism = environment.kafka_security_protocol, environment.kafka_sasl_mechanism
    given = {
        "SASL_MECHANISM": mechanism,
        "SASL_USERNAME": environment.kafka_sasl_username,
        "SASL_PASSWORD": environment.kafka_sasl_password,
    }
    if not uses_sasl(environment):
        return _find_useless(given, protocol, "SASL_SSL")
    missing = [PREFIX + name for name, value in given.items() if not value]
    if missing:
        return f"{PREFIX}SECURITY_PROTOCOL={protocol} needs {' and '.join(missing)}"
    if mechanism not in MECHANISMS:
        return f"{PREFIX}SASL_MECHANISM must be {_one_of(MECHANISMS)}, got {mechanism!r}"
    return None


def _find_tls_fault(environment: Environment) -> str | None:
    given = {name: str(getattr(environment, f"kafka_{name.lower()}")) for name in FILES}
    if not uses_tls(environment):
        return _find_useless(given, environment.kafka_security_protocol, "SSL or SASL_SSL")
    for name, path in given.items():
        if path and not Path(path).is_file():
            return f"{PREFIX}{name}={path} is not a file"
    if given["SSL_KEYFILE"] and not given["SSL_CERTFILE"]:
        return f"{PREFIX}SSL_KEYFILE needs {PREFIX}SSL_CERTFILE"
    return None


def _find_useless(given: dict[str, str], protocol: str, wanted: str) -> str | None:
    """A setting without effect is a mistake: the user believes that the connection is protected."""
    for name, value in given.items():
        if value:
            return f"{PREFIX}{name} has no effect with {PREFIX}SECURITY_PROTOCOL={protocol}; set that to {wanted}"
    return None


def _one_of(choices: tuple[str, ...]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def spark_options(environment: Environment) -> dict[str, str]:
    """For Spark's connector, which takes the options of Kafka's Java client after `kafka.`.

    Certificates are passed by value, because the files need not exist on the machines of Spark's workers.
    """
    options = {"security.protocol": environment.kafka_security_protocol}
    if uses_sasl(environment):
        user, password = map(_quoted, (environment.kafka_sasl_username, environment.kafka_sasl_password))
        module = LOGIN_MODULES[environment.kafka_sasl_mechanism]
        options["sasl.mechanism"] = environment.kafka_sasl_mechanism
        options["sasl.jaas.config"] = f"{module} required username={user} password={password};"
    if uses_tls(environment):
        options |= _tls_options(environment)
    return {f"kafka.{name}": value for name, value in options.items()}


def _tls_options(environment: Environment) -> dict[str, str]:
    options = {"ssl.endpoint.identification.algorithm": "https" if environment.kafka_ssl_check_hostname else ""}
    if environment.kafka_ssl_cafile:
        options |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": Path(environment.kafka_ssl_cafile).read_text(),
        }
    if environment.kafka_ssl_certfile:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": Path(environment.kafka_ssl_certfile).read_text(),
            "ssl.keystore.key": Path(environment.kafka_ssl_keyfile or environment.kafka_ssl_certfile).read_text(),
        }
    return options


def _quoted(text: str) -> str:
    """As JAAS quotes a value."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
