"""The console has no table. Django attaches permissions to a model, so this one carries the console's."""

from __future__ import annotations

from django.db import models

from seckill.console.permissions import ConsolePermission


class Console(models.Model):
    class Meta:
        managed = False
        default_permissions = ()
        permissions = [(permission.value, permission.meaning) for permission in ConsolePermission]
