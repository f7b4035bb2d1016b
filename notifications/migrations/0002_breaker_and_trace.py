from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("notifications", "0001_initial")]

    operations = [
        migrations.AddField("delivery", "traceparent", models.CharField(max_length=55, default="", db_default="")),
        migrations.CreateModel(
            name="Channel",
            fields=[
                ("name", models.CharField(max_length=10, primary_key=True, serialize=False)),
                ("failures", models.IntegerField(default=0)),
                ("open_until", models.DateTimeField(null=True)),
            ],
            options={"db_table": "notifications_channel"},
        ),
    ]
