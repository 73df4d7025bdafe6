"""A grid: one declared plan of cells, seeds and snapshots, and the runs it became."""

from django.conf import settings
from django.db import models

from training.models.runs import Run


class Grid(models.Model):
    """A plan as it was declared. Its runs may be shared with other grids: an equal cell is never trained twice."""

    name = models.CharField(max_length=200)
    plan = models.JSONField(help_text="snapshots, base, formats, memos, retrievals, seeds, recipe")
    key = models.CharField(max_length=64, unique=True, help_text="hash of the resolved plan")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"grid {self.pk} {self.name}"


class GridCell(models.Model):
    """One cell of a grid, in the order in which the cells train."""

    grid = models.ForeignKey(Grid, on_delete=models.CASCADE, related_name="cells")
    position = models.PositiveIntegerField()
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="grid_cells")

    class Meta:
        ordering = ["grid", "position"]
        constraints = [
            models.UniqueConstraint(fields=["grid", "position"], name="one_cell_per_position"),
            models.UniqueConstraint(fields=["grid", "run"], name="one_cell_per_run"),
        ]

    def __str__(self) -> str:
        return f"{self.grid_id}:{self.position}"
