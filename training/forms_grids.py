"""The launch form of a grid; what it cannot say, a plan file can."""

from typing import Any

from django import forms

from synthesis.models import Snapshot
from trace_site.lib.errors import TraceError
from trace_site.lib.small_yaml import LONGEST
from training.core.grid import Plan, read_plan
from training.forms import BaseField
from training.models import Run
from training.services import read_yaml

RECENT = 20
AXES = ("formats", "memos", "retrievals")
MARK = forms.CheckboxSelectMultiple


def snapshot_choices() -> list[tuple[str, str]]:
    """The newest snapshots, in words."""
    rows = Snapshot.objects.defer("manifest")[:RECENT]
    return [
        (str(one.pk), f"{one.pk}: {one.strategy}({one.per_rule}), {one.counts.get('samples', 0):,} samples")
        for one in rows
    ]


class GridForm(forms.Form):
    name = forms.CharField(max_length=200, required=False)
    snapshots = forms.MultipleChoiceField(choices=snapshot_choices, required=False, widget=MARK)
    sweep = forms.CharField(max_length=300, required=False)
    formats = forms.MultipleChoiceField(choices=Run.Format.choices, initial=["a", "b", "c"], widget=MARK)
    memos = forms.MultipleChoiceField(
        choices=[(value, value) for value in Run.Memo.values], initial=["none", "m"], widget=MARK
    )
    retrievals = forms.MultipleChoiceField(
        choices=[(value, value) for value in Run.Retrieval.values], initial=["n", "r", "r+R"], widget=MARK
    )
    seeds = forms.CharField(max_length=100, initial="0")
    base = BaseField()
    recipe = forms.CharField(required=False, widget=forms.Textarea, max_length=LONGEST)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not data.get("snapshots") and not data.get("sweep"):
            self.add_error("snapshots", "Mark one, or name a sweep.")
        if not self.errors:
            try:
                data["plan"] = self.read(data)
            except TraceError as error:
                self.add_error(None, str(error))
        return data

    @staticmethod
    def read(data: dict[str, Any]) -> Plan:
        """The plan that the fields declare. Raises TraceError naming the field."""
        sweeps = data["sweep"].replace(";", " ").split()
        return read_plan(
            {
                "name": data["name"].strip(),
                "base": data["base"],
                "snapshots": [*map(int, data["snapshots"]), *sweeps],
                "seeds": [one.strip() for one in data["seeds"].split(",")],
                "recipe": read_yaml(data["recipe"], "recipe"),
                **{axis: data[axis] for axis in AXES},
            }
        )
