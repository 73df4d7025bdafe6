"""The launch form: a cell of the grid, and every field of the recipe with its default, its source and its meaning."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from synthesis.models import Snapshot
from trace_site.lib.errors import TraceError
from trace_site.lib.recipe import LONGEST_TEXT
from trace_site.lib.small_yaml import read_small_yaml
from training.core import estimate
from training.core import recipe as recipes
from training.core.recipe import FIELDS, Recipe, RecipeField, flat
from training.models import Run
from training.runs.services import configured_bases, require_configured
from training.runs.stages import chosen_recipe, default_recipe

FORMAT_HELP = {
    "a": ("Flat", "One new token per tool. Shortest answers, most new tokens."),
    "b": (
        "Hierarchical",
        "One token for the API, one for the endpoint. Endpoints of the same name share theirs.",
    ),
    "c": (
        "Wrapped",
        "Like hierarchical, between an opening and a closing token. The paper's default. For "
        "pocket the same as b.",
    ),
}
MEMO_HELP = {
    "m": ("Memorise", "Stage 1 first teaches which token means which tool, from the descriptions alone."),
    "mr": (
        "Memorise with reasoning",
        "The same, with a reason before each answer: what the tool does that its look-alikes do not. For pocket "
        "the same as m.",
    ),
    "none": ("Skip Stage 1", "Tokens are learned from the samples only. Shows what Stage 1 is worth."),
}
RETRIEVAL_HELP = {
    "r+R": ("Reason, with rules", "Traces that apply your business rules. This is the method."),
    "r": ("Reason, without rules", "The same without rule samples: the figure to compare r+R with."),
    "n": ("No reasoning", "Query straight to tokens. Fast and blind to rules."),
    "n>r": (
        "Plain, then reasoned",
        "Two passes: query to tokens first, then the same samples with their traces.",
    ),
    "none": ("Skip Stage 2", "Only Stage 1: what memorising alone can retrieve."),
}
CARDS = {
    "format": ("Token format", FORMAT_HELP),
    "memo": ("Stage 1: memorise", MEMO_HELP),
    "retrieval": ("Stage 2: retrieve", RETRIEVAL_HELP),
}
FILLED_FOR = "filled_for"  # the base whose defaults the fields were drawn with
SET_HERE = "threads"  # by the server, whatever a recipe says
PAPER = "google/gemma-4-E4B-it"  # whose default recipe is the paper's


class BaseSelect(forms.Select):
    """Shows a base that is no longer configured too: a select without it would quietly choose another."""

    def optgroups(self, name: str, value: list[str], attrs: dict[str, Any] | None = None) -> list[Any]:
        known = configured_bases()
        lost = [(one, f"{one} (not configured here)") for one in value if one and one not in known]
        self.choices = [*((one, one) for one in known), *lost]
        return super().optgroups(name, value, attrs)


class BaseField(forms.CharField):
    """The base model: one of those configured here."""

    def __init__(self) -> None:
        super().__init__(
            label="Base model",
            max_length=LONGEST_TEXT,
            initial=lambda: configured_bases()[0],
            widget=BaseSelect,
            validators=[require_configured],
            help_text="vLLM serves named bases only; pocket is served by our own engine alone.",
        )


class RunForm(forms.Form):
    snapshot = forms.ModelChoiceField(Snapshot.objects.defer("manifest", "parts"), empty_label=None)
    base = BaseField()
    format = forms.ChoiceField(choices=Run.Format.choices, initial="a")
    memo = forms.ChoiceField(choices=Run.Memo.choices, initial="m", label="Stage 1")
    retrieval = forms.ChoiceField(choices=Run.Retrieval.choices, initial="r+R", label="Stage 2")
    seed = forms.IntegerField(
        initial=0, min_value=0, max_value=2**53, help_text="the same seed makes the same run"
    )
    cloned_from = forms.ModelChoiceField(Run.objects.all(), required=False)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.data.get("yaml", "").strip():
            self.add_error(None, "A pasted recipe waits to be filled in. Press “Fill in”, or empty the box.")
        if self.errors:
            return data
        try:
            data["recipe"] = chosen_recipe(data, edited(data["base"], self.data))
            refused = estimate.refusal(data["recipe"], data["snapshot"].counts)
        except TraceError as error:
            self.add_error(None, str(error))
        else:
            if refused:
                self.add_error("retrieval", refused)
        return data


def edited(base: str, posted: Mapping[str, Any]) -> dict[str, str]:
    """The texts that a person changed: a field left empty keeps its default, and what was filled in for another base
    does not go along to this one."""
    defaults = texts_of(default_recipe(str(posted.get(FILLED_FOR, "")) or base))
    texts = {name: str(posted.get(name, "")).strip() for name in FIELDS}
    return {name: text for name, text in texts.items() if text not in ("", defaults[name])}


def texts_of(recipe: Recipe) -> dict[str, str]:
    return {name: recipes.shown(value) for name, value in flat(recipe).items()}


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field of a recipe beside its defaults. `paper`: the paper's value where it names one."""

    field: RecipeField
    value: str
    default: str
    paper: str

    @property
    def changed(self) -> bool:
        return self.value.strip() not in ("", self.default) and self.field.name != SET_HERE

    @property
    def differs(self) -> bool:
        return bool(self.paper) and self.value != self.paper


@dataclass(frozen=True, slots=True)
class FieldGroup:
    title: str
    rows: list[FieldRow]

    @property
    def changed(self) -> int:
        return sum(row.changed for row in self.rows)


def recipe_groups(base: str, own: Mapping[str, str]) -> list[FieldGroup]:
    """The fields that the base reads. own: texts by dotted name; what it lacks has the base's default."""
    defaults, paper = texts_of(default_recipe(base)), texts_of(default_recipe(PAPER))
    groups = {name: FieldGroup(title, []) for name, title in recipes.GROUPS.items()}
    unread = recipes.OF_NAMED if base == recipes.POCKET else recipes.OF_POCKET
    for name, field in FIELDS.items():
        if not unread.isdisjoint(name.split(".")):
            continue
        told = paper[name] if field.source == "paper" else ""
        row = FieldRow(field, own.get(name, defaults[name]), defaults[name], told)
        groups[field.group].rows.append(row)
    return [group for group in groups.values() if group.rows]


def pasted(posted: Mapping[str, Any]) -> dict[str, str]:
    """The posted form with the pasted YAML filled in: what the YAML names wins, the rest stays as typed.

    Raises TraceError for YAML that is no recipe.
    """
    given = read_small_yaml(posted.get("yaml", ""), "the pasted recipe")
    stay = ("snapshot", "cloned_from", *(() if "base" in given else ("base",)))
    return texts_of(recipes.from_dict(given)) | {name: str(posted[name]) for name in stay if posted.get(name)}


def cell_choices(chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The three dimensions of the grid as radio cards."""
    return [
        {
            "name": name,
            "title": title,
            "options": [
                {"value": value, "label": label, "help": text, "checked": value == chosen[name]}
                for value, (label, text) in texts.items()
            ],
        }
        for name, (title, texts) in CARDS.items()
    ]
