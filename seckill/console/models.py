"""No table: Django keeps permissions beside a model, and these are the console's own."""

from __future__ import annotations

from django.db import models

from seckill.console.permissions import Power


class Console(models.Model):
    class Meta:
        managed = False
        default_permissions = ()
        permissions = [(power.value, power.meaning) for power in Power]
