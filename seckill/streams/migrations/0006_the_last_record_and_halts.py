from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("streams", "0005_events_without_an_index"),
    ]

    operations = [
        migrations.AddField(
            "consumeroffset", "last_record", models.CharField(db_default="", default="", max_length=32)
        ),
        migrations.AddField("consumeroffset", "halted", models.TextField(db_default="", default="")),
        migrations.AddField("consumeroffset", "is_at_work", models.BooleanField(db_default=False, default=False)),
    ]
