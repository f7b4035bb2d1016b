"""Shell: what makes a cluster of Apache Kafka one that people run: certificates, passwords, rights for each service.

Its folder has three files:

* ca.pem: the authority that signs the nodes' certificate, which is valid for `localhost` and, between nodes, for the
  names with which they call one another;
* node.pem: the certificate of the nodes, and its key;
* users.json: the passwords of the sale's principals, of an administrator, and of the brokers themselves.
"""

from __future__ import annotations

import json
import secrets
import ssl
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from seckill.config.kafka_clients import client_options
from seckill.config.kafka_properties import SERVICES, read_kafka_config
from seckill.config.kafka_security import LOGIN_MODULES
from seckill.lab.kafka_target import ADMIN_FILE, CLIENT_FILE
from seckill.messaging.kafka_acls import OPERATOR, PRINCIPALS, access_table
from seckill.stack.broker_network import BROKER_NAMES

HOST = "localhost"
ADMIN, BROKER = "admin", "broker"
SUPER_USERS = (ADMIN, BROKER)
PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-512"
PLAIN_FILE = "plain.properties"
REQUEST_MS_MAX = 20_000
OPERATIONS = {
    "Read": ACLOperation.READ,
    "Write": ACLOperation.WRITE,
    "Create": ACLOperation.CREATE,
    "Alter": ACLOperation.ALTER,
    "Describe": ACLOperation.DESCRIBE,
    "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": ACLOperation.ALTER_CONFIGS,
}


class KafkaSecurity:
    """The files of one cluster, made when they are missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self._node, self._users = (folder / name for name in ("ca.pem", "node.pem", "users.json"))
        if not self._users.exists():
            self._create()
        self.passwords: dict[str, str] = json.loads(self._users.read_text())

    def _create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.authority)
        issued = authority.issue_cert(HOST, *BROKER_NAMES.values())
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        # Kafka reads keys in the format PKCS #8 only.
        plain = serialization.NoEncryption()
        content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        content += b"".join(each.bytes() for each in issued.cert_chain_pems)
        users = {user: secrets.token_urlsafe(18) for user in (*PRINCIPALS, *SUPER_USERS)}
        for path, text in ((self._node, content), (self._users, json.dumps(users, indent=1).encode())):
            path.touch(mode=0o600)
            path.write_bytes(text)

    def tls(self) -> ssl.SSLContext:
        """For a client that verifies the nodes."""
        return ssl.create_default_context(cafile=str(self.authority))

    # ── the nodes ────────────────────────────────────────────────────────────────────────────────

    def server_settings(self, port: int, controller_port: int) -> dict[str, str]:
        """Clients log in with SCRAM or PLAIN. Controllers use PLAIN, because SCRAM's passwords are in the metadata,
        which they cannot read before they have logged in; so do brokers among themselves."""
        everyone = " ".join(f'user_{user}="{password}"' for user, password in self.passwords.items())
        password = self.passwords[BROKER]
        plain = f'{LOGIN_MODULES[PLAIN]} required username="{BROKER}" password="{password}" {everyone};'
        return {
            "listeners": f"SASL_SSL://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": f"{SCRAM},{PLAIN}",
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            "sasl.mechanism.controller.protocol": PLAIN,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{LOGIN_MODULES[SCRAM]} required;",
            "listener.name.controller.sasl.enabled.mechanisms": PLAIN,
            "listener.name.controller.plain.sasl.jaas.config": plain,
            "listener.name.replication.sasl.enabled.mechanisms": PLAIN,
            "listener.name.replication.plain.sasl.jaas.config": plain,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{user}" for user in SUPER_USERS),
        }

    def format_arguments(self) -> list[str]:
        """For `kafka-storage format`: the first metadata of the cluster contain the users."""
        found = []
        for user, password in self.passwords.items():
            found += ["--add-scram", f"{SCRAM}=[name={user},password={password}]"]
        return found

    # ── the clients ──────────────────────────────────────────────────────────────────────────────

    def write_client_files(self, folder: Path, address: str) -> None:
        """client.properties has a login for each service, admin.properties that of the administrator, and
        plain.properties that of the operator with PLAIN."""
        services = [f"service.{name}.sasl.jaas.config={self._login(name, SCRAM)}" for name in SERVICES]
        files = {
            CLIENT_FILE: [*self._client_lines(address, OPERATOR, SCRAM), *services],
            ADMIN_FILE: self._client_lines(address, ADMIN, SCRAM),
            PLAIN_FILE: self._client_lines(address, OPERATOR, PLAIN),
        }
        for name, lines in files.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_text("\n".join(lines) + "\n")

    def _client_lines(self, address: str, user: str, mechanism: str) -> list[str]:
        return [
            f"bootstrap.servers={address}",
            "security.protocol=SASL_SSL",
            f"sasl.mechanism={mechanism}",
            f"sasl.jaas.config={self._login(user, mechanism)}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority}",
        ]

    def _login(self, user: str, mechanism: str) -> str:
        return f'{LOGIN_MODULES[mechanism]} required username="{user}" password="{self.passwords[user]}";'


def grant_access(admin_file: Path) -> int:
    """Give each principal the rights in the table, and no others. Returns the number of rights."""
    config = read_kafka_config(admin_file)
    admin = KafkaAdminClient(
        **client_options(config.bootstrap_servers, config.variables_of(None)), request_timeout_ms=REQUEST_MS_MAX
    )
    try:
        rights = [
            ACL(
                f"User:{row.principal}",
                "*",
                OPERATIONS[operation],
                ACLPermissionType.ALLOW,
                ResourcePattern(
                    ResourceType[row.resource.upper()],
                    row.name,
                    ACLResourcePatternType.PREFIXED if row.is_prefix else ACLResourcePatternType.LITERAL,
                ),
            )
            for row in access_table()
            for operation in row.operations
        ]
        admin.create_acls(rights)
    finally:
        admin.close()
    return len(rights)
