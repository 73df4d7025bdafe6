"""What of a run its samples do not tell."""

from django.db import models

from synthesis.models.samples import Sample, SynthesisRun


class RunUnit(models.Model):
    """A unit that a run planned and that is not, or no longer, its own sample.

    A sample is of the run that writes it (`Sample.run`). Another run that planned the same sample has a unit of it
    here, and one that will not be written any more stands here with the reason, without its sample.
    """

    run = models.ForeignKey(SynthesisRun, on_delete=models.PROTECT, related_name="+", db_index=False)
    sample = models.ForeignKey(Sample, null=True, on_delete=models.SET_NULL, related_name="shared_by")
    why = models.CharField(max_length=300, blank=True, help_text="why it is not written any more")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "sample"], name="one_unit_of_a_run")]

    def __str__(self) -> str:
        return f"unit of synthesis {self.run_id}"
