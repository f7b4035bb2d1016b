"""The table of cases, by what is broken; importing it fills `seckill.faults.case.CASES`."""

from seckill.faults.cases import (  # noqa: F401  # each enters its cases
    broker,
    buyers,
    everything,
    gateway,
    inventory,
    memory,
    messages,
    money,
    postgres,
    redis,
    slots,
    spoilt,
    standstill,
    workers,
)
