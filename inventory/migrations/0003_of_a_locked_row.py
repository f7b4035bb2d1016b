"""No foreign keys from what is written under the lock of its stock, and no indexes that unique constraints have."""

import django.db.models.deletion
from django.db import migrations, models


def _belongs_to(model: str) -> models.ForeignKey:
    return models.ForeignKey(
        db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to=f"inventory.{model}"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0002_gate_owed"),
    ]

    operations = [
        migrations.AlterField(model_name="hold", name="stock", field=_belongs_to("stock")),
        migrations.AlterField(model_name="hold", name="sale", field=_belongs_to("sale")),
        migrations.AlterField(model_name="ledgerentry", name="stock", field=_belongs_to("stock")),
    ]
