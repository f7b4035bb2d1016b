"""Table: all labs by their numbers."""

from __future__ import annotations

from seckill.lab.labs.message_labs import MESSAGE_LABS
from seckill.lab.labs.stock_labs import STOCK_LABS

LABS = {lab.number: lab for lab in sorted((*STOCK_LABS, *MESSAGE_LABS), key=lambda lab: lab.number)}
