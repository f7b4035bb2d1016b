"""Table: settings of a broker that Kafka can change while it runs, and that change nothing here.

Tools and operators' scripts set them, so they are checked by type, kept in the metadata log and described. Secrets
(passwords, keys, JAAS texts) are not among them: they would stand in the metadata log for everyone to read.
"""

from __future__ import annotations

from mqcore.config import as_text, settings
from mqcore.log.config import SettingType, TopicSetting

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

# Without a default: a setting that this broker has, too.
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

DOCUMENTATION = "Kept and described because tools set it. Without effect here while the broker runs."


def _plausible(value: object) -> str | None:
    return "Value must be at least 0" if isinstance(value, int | float) and value < 0 else None


_OWN = {name: as_text(spec.default) for name, spec in settings().items()}  # read from the file, at the start

BROKER_KEPT: dict[str, TopicSetting] = {
    name: TopicSetting(name, kind, _OWN.get(name, default), _plausible, None, DOCUMENTATION)
    for name, kind, default in _ROWS
}
