"""The fault cases, one module per part of the system that breaks; importing this package fills the table of cases."""

from seckill.lab.faults.cases import (  # noqa: F401
    broker,
    buyers,
    cluster,
    cluster_network,
    damage,
    everything,
    gateway,
    inventory,
    messages,
    payments,
    postgres,
    queue,
    redis,
    redis_failover,
    redis_memory,
    slots,
    standstill,
    workers,
)
