from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("streams", "0004_diverts"),
    ]

    operations = [
        migrations.AlterField(model_name="outboxrow", name="event_id", field=models.UUIDField()),
    ]
