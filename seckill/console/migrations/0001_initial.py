from django.db import migrations, models

POWERS = (
    ("view", "see the console"),
    ("operate", "operate sales, processes, dead letters and reports"),
    ("refund", "give money back"),
    ("break", "kill processes and inject faults"),
)


def keep_operators(apps, schema_editor):
    """Operators of before, who had one flag for everything, keep what they could do to a real sale."""
    operators = list(apps.get_model("auth", "User").objects.filter(is_staff=True))
    if not operators:
        return
    kind, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(app_label="console", model="console")
    permissions = apps.get_model("auth", "Permission").objects
    kept = [
        permissions.get_or_create(content_type=kind, codename=name, defaults={"name": meaning})[0]
        for name, meaning in POWERS
        if name != "break"
    ]
    for operator in operators:
        operator.user_permissions.add(*kept)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.CreateModel(
            name="Console",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
            ],
            options={"permissions": list(POWERS), "managed": False, "default_permissions": ()},
        ),
        migrations.RunPython(keep_operators, migrations.RunPython.noop),
    ]
