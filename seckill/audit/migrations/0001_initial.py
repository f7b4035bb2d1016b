from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("actor", models.CharField(max_length=200)),
                ("verb", models.CharField(max_length=60)),
                ("target", models.CharField(max_length=200)),
                ("arguments", models.JSONField(default=dict)),
                ("result", models.TextField()),
            ],
            options={"db_table": "audit_entry"},
        ),
    ]
