from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0002_reports")]

    operations = [migrations.AddField("ReportService", "processes", models.JSONField(null=True))]
