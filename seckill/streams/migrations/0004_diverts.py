from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("streams", "0003_slots_and_switches"),
    ]

    operations = [
        migrations.CreateModel(
            name="Divert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("topic", models.CharField(max_length=249)),
                ("stayers", models.BinaryField()),
                ("users", models.IntegerField()),
                ("began_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "streams_divert",
            },
        ),
        migrations.AddField(
            model_name="slotmap",
            name="diverted",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="slotmap",
            name="turning",
            field=models.CharField(default="", max_length=10),
        ),
    ]
