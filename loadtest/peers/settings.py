"""Django's settings for a peer's gateway: the product's, with other addresses behind the same paths."""

from __future__ import annotations

from seckill.settings import *  # noqa: F403

ROOT_URLCONF = "loadtest.peers.urls"
