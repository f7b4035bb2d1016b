from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]

    operations = [
        migrations.AddField("payment", "late", models.BooleanField(default=False, db_default=False)),
        migrations.AddField("payment", "matched", models.BooleanField(default=False, db_default=False)),
        # Until now nothing but a payment that came too late was ever given back.
        migrations.RunSQL(
            "UPDATE orders_payment SET late = true WHERE state IN ('refunding', 'refunded')",
            migrations.RunSQL.noop,
        ),
        migrations.CreateModel(
            name="Discrepancy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("payment_id", models.UUIDField()),
                ("kind", models.CharField(max_length=80)),
                ("order_id", models.CharField(blank=True, max_length=100)),
                ("amount", models.BigIntegerField()),
                ("state", models.CharField(max_length=10)),
                ("found_at", models.DateTimeField(auto_now_add=True)),
                ("settled_at", models.DateTimeField(null=True)),
            ],
            options={"db_table": "orders_discrepancy"},
        ),
        migrations.CreateModel(
            name="ProviderLog",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("read_to", models.BigIntegerField(default=0)),
                ("read_at", models.DateTimeField(auto_now=True)),
            ],
            options={"db_table": "orders_provider_log"},
        ),
        migrations.AddConstraint(
            "discrepancy",
            models.UniqueConstraint(fields=("payment_id", "kind"), name="orders_discrepancy_once"),
        ),
    ]
