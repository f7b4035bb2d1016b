from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    """Apart from the rows that 0002 changes: Postgres builds no index on a table with changes pending."""

    dependencies = [("orders", "0002_reconciliation")]

    operations = [
        migrations.AddIndex(
            "payment",
            models.Index(condition=Q(state__in=["open", "refunding"]), fields=["opened_at"], name="orders_payment_due"),
        ),
        migrations.AddIndex(
            "payment",
            models.Index(
                condition=Q(captured_at__isnull=False, matched=False), fields=["captured_at"], name="orders_payment_new"
            ),
        ),
        migrations.AddConstraint(
            "payment",
            models.UniqueConstraint(
                condition=Q(state__in=["captured", "refunding", "refunded"], late=False),
                fields=("order",),
                name="orders_payment_one_that_counts",
            ),
        ),
    ]
