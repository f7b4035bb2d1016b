"""Table: broker settings that Kafka can change at run time and that have no effect here.

Tools and scripts set them, so they are checked by type, kept in the metadata log and described. Secrets (passwords,
keys, JAAS texts) are rejected, because every client could read them from the metadata log.
"""

from __future__ import annotations

from mqcore.config import as_text, settings
from mqcore.log.setting_types import SettingType, TopicSetting

_B, _S, _I, _H, _L, _D, _X, _C = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.SHORT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.LIST,
    SettingType.CLASS,
)

_LONG_MAX = str(2**63 - 1)

# An empty default marks a setting that this broker has as well, with a default of its own.
_ROWS: tuple[tuple[str, SettingType, str], ...] = (
    ("background.threads", _I, "10"),
    ("config.providers", _X, ""),
    ("cordoned.log.dirs", _X, ""),
    ("follower.fetch.last.tiered.offset.enable", _B, "false"),
    ("group.consumer.assignment.interval.ms", _I, "1000"),
    ("group.coordinator.cached.buffer.max.bytes", _I, "1048588"),
    ("group.share.assignment.interval.ms", _I, "1000"),
    ("group.streams.assignment.interval.ms", _I, "1000"),
    ("log.cleaner.backoff.ms", _L, ""),
    ("log.cleaner.dedupe.buffer.size", _L, ""),
    ("log.cleaner.io.buffer.load.factor", _D, "0.9"),
    ("log.cleaner.io.buffer.size", _I, "524288"),
    ("log.cleaner.io.max.bytes.per.second", _D, "1.7976931348623157E308"),
    ("log.cleaner.threads", _I, "1"),
    ("max.connection.creation.rate", _I, "2147483647"),
    ("max.connections", _I, ""),
    ("max.connections.per.ip", _I, ""),
    ("max.connections.per.ip.overrides", _S, ""),
    ("metric.reporters", _X, ""),
    ("num.io.threads", _I, "8"),
    ("num.network.threads", _I, "3"),
    ("num.recovery.threads.per.data.dir", _I, "2"),
    ("num.replica.fetchers", _I, "1"),
    ("principal.builder.class", _C, ""),
    ("producer.id.expiration.ms", _I, ""),
    ("remote.fetch.max.wait.ms", _I, "500"),
    ("remote.list.offsets.request.timeout.ms", _L, "30000"),
    ("remote.log.index.file.cache.total.size.bytes", _L, "1073741824"),
    ("remote.log.manager.copier.thread.pool.size", _I, "10"),
    ("remote.log.manager.copy.max.bytes.per.second", _L, _LONG_MAX),
    ("remote.log.manager.expiration.thread.pool.size", _I, "10"),
    ("remote.log.manager.fetch.max.bytes.per.second", _L, _LONG_MAX),
    ("remote.log.manager.follower.thread.pool.size", _I, "2"),
    ("remote.log.reader.threads", _I, "10"),
    ("sasl.enabled.mechanisms", _X, "GSSAPI"),
    ("sasl.kerberos.kinit.cmd", _S, "/usr/bin/kinit"),
    ("sasl.kerberos.min.time.before.relogin", _L, "60000"),
    ("sasl.kerberos.principal.to.local.rules", _X, "DEFAULT"),
    ("sasl.kerberos.service.name", _S, ""),
    ("sasl.kerberos.ticket.renew.jitter", _D, "0.05"),
    ("sasl.kerberos.ticket.renew.window.factor", _D, "0.8"),
    ("sasl.login.refresh.buffer.seconds", _H, "300"),
    ("sasl.login.refresh.min.period.seconds", _H, "60"),
    ("sasl.login.refresh.window.factor", _D, "0.8"),
    ("sasl.login.refresh.window.jitter", _D, "0.05"),
    ("sasl.mechanism.inter.broker.protocol", _S, "GSSAPI"),
    ("share.coordinator.cached.buffer.max.bytes", _I, "1048588"),
    ("ssl.cipher.suites", _X, ""),
    ("ssl.client.auth", _S, "none"),
    ("ssl.enabled.protocols", _X, "TLSv1.2,TLSv1.3"),
    ("ssl.endpoint.identification.algorithm", _S, "https"),
    ("ssl.engine.factory.class", _C, ""),
    ("ssl.keymanager.algorithm", _S, "SunX509"),
    ("ssl.keystore.location", _S, ""),
    ("ssl.keystore.type", _S, "JKS"),
    ("ssl.protocol", _S, "TLSv1.3"),
    ("ssl.provider", _S, ""),
    ("ssl.secure.random.implementation", _S, ""),
    ("ssl.trustmanager.algorithm", _S, "PKIX"),
    ("ssl.truststore.location", _S, ""),
    ("ssl.truststore.type", _S, "JKS"),
    ("transaction.partition.verification.enable", _B, "true"),
)

SECRETS = frozenset(
    {
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    }
)

_READ_AT_START = """
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name auto.leader.rebalance.enable
broker.heartbeat.interval.ms broker.id broker.session.timeout.ms client.quota.callback.class
connection.failed.authentication.delay.ms connections.max.reauth.ms controlled.shutdown.enable
controller.listener.names controller.quorum.append.linger.ms controller.quorum.auto.join.enable
controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
create.topic.policy.class.name delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.max.lifetime.ms delegation.token.secret.key
delete.records.purgatory.purge.interval.requests early.start.listeners
fetch.purgatory.purge.interval.requests group.consumer.assignors group.consumer.heartbeat.interval.ms
group.consumer.max.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms group.coordinator.append.linger.ms
group.coordinator.background.threads group.coordinator.rebalance.protocols group.coordinator.threads
group.share.assignors group.share.delivery.count.limit group.share.heartbeat.interval.ms
group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.share.sessions
group.share.max.size group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
group.streams.min.session.timeout.ms group.streams.num.standby.replicas group.streams.session.timeout.ms
initial.broker.registration.timeout.ms kafka.metrics.polling.interval.secs kafka.metrics.reporters
leader.imbalance.check.interval.seconds log.dir log.dir.failure.timeout.ms log.flush.scheduler.interval.ms
log.flush.start.offset.checkpoint.interval.ms log.retention.hours log.retention.minutes log.roll.hours
log.roll.jitter.hours max.incremental.fetch.session.cache.slots max.request.partition.size.limit
metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
metadata.max.retention.bytes metadata.max.retention.ms metrics.num.samples metrics.recording.level
metrics.sample.window.ms num.replica.alter.log.dirs.threads offsets.commit.timeout.ms
offsets.load.buffer.size offsets.topic.compression.codec process.roles
producer.purgatory.purge.interval.requests quota.window.num quota.window.size.seconds
remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.task.interval.ms remote.log.manager.thread.pool.size
remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
remote.log.storage.manager.class.name remote.log.storage.manager.class.path
remote.log.storage.manager.impl.prefix remote.log.storage.system.enable replica.fetch.backoff.ms
replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
sasl.server.callback.handler.class sasl.server.max.receive.size security.inter.broker.protocol
security.providers share.coordinator.append.linger.ms share.coordinator.load.buffer.size
share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
socket.receive.buffer.bytes socket.send.buffer.bytes ssl.allow.dn.changes ssl.allow.san.changes
ssl.principal.mapping.rules telemetry.max.bytes transaction.abort.timed.out.transaction.cleanup.interval.ms
transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.replication.factor
transaction.state.log.segment.bytes transaction.two.phase.commit.enable transactional.id.expiration.ms
"""

READ_AT_START = frozenset(_READ_AT_START.split())
"""Settings of Kafka that cannot be changed while a broker runs."""

DOCUMENTATION = "Accepted and described because tools set it; has no effect while this broker runs."


def _plausible(value: object) -> str | None:
    return "Value must be at least 0" if isinstance(value, int | float) and value < 0 else None


_OWN = {name: as_text(spec.default) for name, spec in settings().items()}  # read from the file at the start

SETTINGS_WITHOUT_EFFECT: dict[str, TopicSetting] = {
    name: TopicSetting(name, kind, _OWN.get(name, default), _plausible, None, DOCUMENTATION)
    for name, kind, default in _ROWS
}
