"""Frames to frames: who asked how often, and whether who came first was served first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from analytics.measures.counting import count, readable
from analytics.schemas import REQUESTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REFUSED: Final = ("DUPLICATE", "LIMIT_REACHED")
"""What a person hears once at most."""
STEP_MS: Final = 100

SUSPECT_REQUESTS: Final = 5
SUSPECT_GAP_MS: Final = 1_000
"""Who asks five times in one sale and more than once a second on average is no person with two hands. The accounts of
one address cannot be seen here: addresses stay in the gateway."""


def buyers(events: DataFrame) -> DataFrame:
    """One row for each user and sale: it grows with the users, and stays in Postgres."""
    from pyspark.sql import functions as f

    asked = readable(events).where(f.col("kind").isin(REQUESTED, "RESERVED", *REFUSED))
    at_ms = f.when(f.col("kind") == REQUESTED, f.col("at_ms"))
    return asked.groupBy("sale_id", "user_id").agg(
        count(REQUESTED).alias("requests"),
        count(*REFUSED).alias("refused"),
        count("RESERVED").alias("granted"),
        f.min(at_ms).alias("first_ms"),
        f.max(at_ms).alias("last_ms"),
    )


def fairness(steps: DataFrame) -> DataFrame:
    """Granted and sold out by the tenth of a second in which the request came into the log."""
    from pyspark.sql import functions as f

    decided = steps.where(f.col("kind").isin("RESERVED", "SOLD_OUT"))
    came_ms = f.col("came_ms") - f.pmod(f.col("came_ms"), f.lit(STEP_MS))
    return decided.groupBy("sale_id", "sku", came_ms.alias("came_ms")).agg(
        count("RESERVED").alias("granted"), count("SOLD_OUT").alias("refused")
    )
