"""Gates of sales that are over are retired; what the gate is owed waits for no lock of its stock."""

import time

import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def _closed_now(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """When a sale was closed was not kept before."""
    apps.get_model("inventory", "Sale").objects.filter(state="closed").update(closed_at_ms=int(time.time() * 1000))


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0003_of_a_locked_row"),
    ]

    operations = [
        migrations.AddField(model_name="sale", name="closed_at_ms", field=models.BigIntegerField(null=True)),
        migrations.AddField(
            model_name="stock", name="gate_retired", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.AlterField(
            model_name="gatesync",
            name="stock",
            field=models.ForeignKey(
                db_constraint=False, on_delete=django.db.models.deletion.PROTECT, to="inventory.stock"
            ),
        ),
        migrations.RunPython(_closed_now, migrations.RunPython.noop),
    ]
