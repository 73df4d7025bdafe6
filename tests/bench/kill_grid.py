"""The whole grid of 45 cells by three workers that are killed again and again: what trained how often.

    TRACE_HOME=/some/folder pytest tests/bench/kill_grid.py -s

Real processes on a database of its own with a fake trainer. Prints one line of figures; fails when a stage was
trained twice, a cell has no model, or a job was lost.
"""

import pytest

from tests.factories import make_snapshot
from tests.training.grid_storm import storm
from training.core.grid import read_plan
from training.grids import services as grids_services
from training.models import GridCell


@pytest.mark.django_db(transaction=True)
def test_45_cells_3_workers_30_kills(settings, tmp_path, monkeypatch):
    monkeypatch.delenv("FAKE_TRAINER", raising=False)
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    plan = read_plan({"snapshots": [make_snapshot().pk], "base": "some/base"})
    grid = grids_services.grid_create(plan=plan, snapshots=grids_services.snapshots_of(plan))
    runs = [cell.run for cell in GridCell.objects.filter(grid=grid).select_related("run")]
    found = storm(tmp_path, runs, workers=3, kills=30, seed=45, step_seconds=0.4)
    print(f"\n{found}")
    assert (found["cells"], found["stages"], found["asked"]) == (45, 42, 75)
