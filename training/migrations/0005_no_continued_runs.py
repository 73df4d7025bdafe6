"""The pocket model has no decoder that a retraining could go on from."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("training", "0004_loop")]
    operations = [migrations.RemoveField("retrainpolicy", "continued_runs")]
