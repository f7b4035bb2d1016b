"""The names of admission's keys in Redis. In a cluster all of them have one hash tag, so one server has them all."""

from __future__ import annotations

from django.conf import settings

from seckill.config.redis_address import key_prefix


def prefix() -> str:
    """Before every name; empty outside a cluster. Admission's scripts get it as their only declared key."""
    return key_prefix(settings.ENVIRONMENT.admission_redis_url)


def admission_key(name: str) -> str:
    return prefix() + name
