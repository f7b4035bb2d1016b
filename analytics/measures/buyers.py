"""Measures of buyers: how often each one sent requests, and whether earlier requests were served first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from analytics.measures.counting import count_of, readable
from analytics.schemas import REQUESTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REFUSED: Final = ("DUPLICATE", "LIMIT_REACHED")
"""Refusals that a human buyer gets at most once."""
STEP_MS: Final = 100

SUSPECT_REQUESTS: Final = 5
SUSPECT_GAP_MS: Final = 1_000
"""A user who sends five requests in a sale, on average more than one per second, is probably a bot. Several accounts at
one address are not visible here, because addresses stay in the gateway."""


def buyers(events: DataFrame) -> DataFrame:
    """One row for each user and sale, so the table grows with the number of users."""
    from pyspark.sql import functions as f

    relevant = readable(events).where(f.col("kind").isin(REQUESTED, "RESERVED", *REFUSED))
    at_ms = f.when(f.col("kind") == REQUESTED, f.col("at_ms"))
    return relevant.groupBy("sale_id", "user_id").agg(
        count_of(REQUESTED).alias("requests"),
        count_of(*REFUSED).alias("refused"),
        count_of("RESERVED").alias("granted"),
        f.min(at_ms).alias("first_ms"),
        f.max(at_ms).alias("last_ms"),
    )


def fairness(steps: DataFrame) -> DataFrame:
    """Granted and sold-out requests by the tenth of a second in which they reached the log."""
    from pyspark.sql import functions as f

    decided = steps.where(f.col("kind").isin("RESERVED", "SOLD_OUT"))
    came_ms = f.col("came_ms") - f.pmod(f.col("came_ms"), f.lit(STEP_MS))
    return decided.groupBy("sale_id", "sku", came_ms.alias("came_ms")).agg(
        count_of("RESERVED").alias("granted"), count_of("SOLD_OUT").alias("refused")
    )
