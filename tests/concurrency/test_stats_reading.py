"""The step of the statistics page follows the activity, not the time from the first to the last event."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.conf import settings

from analytics.models import Batch, Flow, Run
from analytics.report import queries
from tests.services import Services


def found_step(services: Services, seconds: list[int]) -> int:
    run = Run.objects.create(id=uuid4(), kind="replay")
    Batch.objects.create(run=run, batch=0, records=len(seconds))
    Flow.objects.bulk_create(Flow(run=run, sale_id=1, at_ms=at * 1000, kind="RESERVED", events=1) for at in seconds)
    name = settings.DATABASES["default"]["NAME"]
    return queries.read_statistics(f"postgresql://seckill@127.0.0.1:{services.postgres_port}/{name}").step_ms


@pytest.mark.parametrize(
    ("seconds", "step_ms"),
    [
        ([0], 1_000),
        ([*range(20), 7_200], 1_000),
        ([*range(300), *range(86_400, 86_700)], 2_000),
        ([*range(0, 3_600, 10)], 10_000),
    ],
)
def test_a_pause_of_hours_does_not_coarsen_the_steps(services: Services, seconds: list[int], step_ms: int) -> None:
    assert found_step(services, seconds) == step_ms
