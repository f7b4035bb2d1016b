"""Django settings of a design's gateway: the product's settings with other views behind the same URLs."""

from __future__ import annotations

from seckill.config.settings import *  # noqa: F403

ROOT_URLCONF = "loadtest.designs.urls"
