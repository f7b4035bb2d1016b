"""A client.properties file, as Kafka's tools read it, becomes our variables; what we cannot do is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from seckill.config.environment import BadEnvironment
from seckill.config.kafka_properties import KafkaConfig, read_kafka_config

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAVA = f"""
# as an administrator has sent it
bootstrap.servers = a.example:9093,b.example:9093
security.protocol: SASL_SSL
sasl.mechanism SCRAM-SHA-512
sasl.jaas.config={SCRAM} required \\
    username="operator" \\
    password="o\\\\"ne";
ssl.truststore.type=PEM
ssl.truststore.location=CA
service.inventory.sasl.jaas.config={SCRAM} required username="stock" password=two;
"""
LIBRDKAFKA = """
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=operator
sasl.password=one
ssl.ca.location=CA
ssl.endpoint.identification.algorithm=none
"""


def config(tmp_path: Path, text: str) -> KafkaConfig:
    authority = tmp_path / "ca.pem"
    authority.touch()
    path = tmp_path / "client.properties"
    path.write_text(text.replace("=CA\n", f"={authority}\n"))
    return read_kafka_config(path)


def test_a_file_for_javas_client_is_understood_with_its_continued_lines_and_quotes(tmp_path: Path) -> None:
    found = config(tmp_path, JAVA)
    assert found.bootstrap_servers == "a.example:9093,b.example:9093"
    assert found.variables == {
        "SECKILL_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "SECKILL_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "SECKILL_KAFKA_SASL_USERNAME": "operator",
        "SECKILL_KAFKA_SASL_PASSWORD": 'o"ne',
        "SECKILL_KAFKA_SSL_CAFILE": str(tmp_path / "ca.pem"),
    }


def test_a_service_may_have_a_principal_of_its_own_and_keeps_everything_else(tmp_path: Path) -> None:
    found = config(tmp_path, JAVA)
    inventory = found.variables_of("inventory")
    assert inventory["SECKILL_KAFKA_SASL_USERNAME"] == "stock"
    assert inventory["SECKILL_KAFKA_SASL_PASSWORD"] == "two"
    assert inventory["SECKILL_KAFKA_SSL_CAFILE"] == found.variables["SECKILL_KAFKA_SSL_CAFILE"]
    assert found.variables_of("orders") == found.variables_of(None) == dict(found.variables)


def test_a_file_for_librdkafka_is_understood(tmp_path: Path) -> None:
    found = config(tmp_path, LIBRDKAFKA).variables
    assert found["SECKILL_KAFKA_SASL_MECHANISM"] == "PLAIN"
    assert found["SECKILL_KAFKA_SASL_USERNAME"] == "operator"
    assert found["SECKILL_KAFKA_SSL_CHECK_HOSTNAME"] == "false"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("security.protocl=SSL\n", "security.protocl is not supported; known are bootstrap.servers, "),
        ("security.protocol=SASL_SSL\n", "SECURITY_PROTOCOL=SASL_SSL needs SECKILL_KAFKA_SASL_MECHANISM and"),
        ("security.protocol=SSL\nssl.truststore.location=x.jks\n", "must be a PEM file, with ssl.truststore.type=PEM"),
        ("sasl.jaas.config=com.example.Kerberos required;\n", "sasl.jaas.config must begin with org.apache.kafka"),
        (f"sasl.jaas.config={SCRAM} required username=ann;\n", "sasl.jaas.config lacks password"),
        ("service.shop.sasl.username=x\n", "unknown service 'shop'; known are gateway, inventory, orders,"),
        ("service.orders.acks=1\n", "acks is not supported"),
        ("= nothing\n", "'= nothing' is not KEY=VALUE"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_the_file_and_the_key(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadEnvironment, match=reason) as refused:
        config(tmp_path, text)
    assert "client.properties: " in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadEnvironment, match="nowhere.properties cannot be read: No such file"):
        read_kafka_config(tmp_path / "nowhere.properties")
