"""The one place that says how a Kafka client connects: every client of this project is opened with `client_options`.

The variables are read at each call, so a client that is opened after a password file has changed uses the new password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from seckill.config import environment, kafka_security
from seckill.config.kafka_bootstrap import watch_bootstrap


def client_options(bootstrap_servers: str | Sequence[str], variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Arguments of kafka-python's consumers, producers and admin clients: address and security."""
    configured = environment.read(variables)
    watch_bootstrap()
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers,
        "security_protocol": configured.kafka_security_protocol,
    }
    if kafka_security.uses_sasl(configured):
        options |= {
            "sasl_mechanism": configured.kafka_sasl_mechanism,
            "sasl_plain_username": configured.kafka_sasl_username,
            "sasl_plain_password": configured.kafka_sasl_password,
        }
    if kafka_security.uses_tls(configured):
        from seckill.config.kafka_handshake import guard_handshakes  # kafka-python is loaded only where it is used

        guard_handshakes()
        options |= {
            "ssl_cafile": configured.kafka_ssl_cafile or None,
            "ssl_certfile": configured.kafka_ssl_certfile or None,
            "ssl_keyfile": configured.kafka_ssl_keyfile or None,
            "ssl_check_hostname": configured.kafka_ssl_check_hostname,
        }
    return options


def spark_options(bootstrap_servers: str) -> dict[str, str]:
    """The same for Spark's connector."""
    return {"kafka.bootstrap.servers": bootstrap_servers, **kafka_security.spark_options(environment.read())}


def replace_login(variables: Mapping[str, str]) -> None:
    """The clients of this process, and of its child processes, log in like this from now on."""
    for name in [each for each in os.environ if each.startswith(kafka_security.PREFIX)]:
        del os.environ[name]
    os.environ.update(variables)
