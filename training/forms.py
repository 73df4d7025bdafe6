"""The launch form: a cell of the grid, and the recipe's fields with their defaults."""

from copy import deepcopy
from dataclasses import asdict
from typing import Any

from django import forms

from synthesis.models import Snapshot
from trace_site.lib.errors import TraceError
from training.core import recipe as recipes
from training.core.recipe import POCKET, Recipe
from training.models import Run
from training.services import default_recipe

FORMAT_HELP = {
    "a": ("Flat", "One new token per tool. Shortest answers, most new tokens."),
    "b": (
        "Hierarchical",
        "One token for the API, one for the endpoint. Endpoints of the same name share theirs.",
    ),
    "c": ("Wrapped", "Like hierarchical, between an opening and a closing token. The paper's default."),
}
MEMO_HELP = {
    "m": ("Memorise", "Stage 1 first teaches which token means which tool, from the descriptions alone."),
    "mr": (
        "Memorise with reasoning",
        "The same, with a short reason before each answer: what the tool does that its look-alikes do not.",
    ),
    "none": ("Skip Stage 1", "Tokens are learned from the samples only. Shows what Stage 1 is worth."),
}
RETRIEVAL_HELP = {
    "r+R": ("Reason, with rules", "Traces that apply your business rules. This is the method."),
    "r": ("Reason, without rules", "The same without rule samples: the figure to compare r+R with."),
    "n": ("No reasoning", "Query straight to tokens. Fast and blind to rules."),
    "none": ("Skip Stage 2", "Only Stage 1: what memorising alone can retrieve."),
    "n>r": (
        "Plain, then reasoned",
        "Two passes: query to tokens first, then the same samples with their traces.",
    ),
}
# field of the recipe -> (label, help)
RECIPE_FIELDS: dict[str, dict[str, tuple[str, str]]] = {
    "Stage 1": {
        "stage1.lr": ("Peak learning rate", "cosine to a tenth of it"),
        "stage1.batch_size": ("Batch size", "sequences a step"),
        "stage1.epochs": ("Epochs", "passes over the records"),
        "stage1.max_seconds": ("Time limit, s", "0 = none; the schedule is planned to end in time"),
    },
    "Stage 2": {
        "stage2.lr": ("Peak learning rate", "cosine to a tenth of it"),
        "stage2.batch_size": ("Batch size", "sequences a step"),
        "stage2.epochs": ("Epochs", "passes over the samples"),
        "stage2.max_seconds": ("Time limit, s", "0 = none; the schedule is planned to end in time"),
    },
    "Model": {
        "embeddings": ("Embeddings", "full trains whole tables, new_rows the tool tokens only"),
        "lora.rank": ("LoRA rank", "for a named base; pocket trains every weight"),
        "lora.alpha": ("LoRA alpha", "for a named base"),
        "mcts_negatives": ("Hard negatives", "look-alikes beside the gold tool in Stage 1 choices"),
        "empty_thinking_share": ("Fast-mode share", "share of samples also trained without their trace"),
        "max_seq_len": ("Longest sequence", "tokens; longer records are left out and counted"),
    },
}


class RunForm(forms.Form):
    snapshot = forms.ModelChoiceField(Snapshot.objects.defer("manifest"), empty_label=None)
    base = forms.CharField(
        max_length=300, initial=POCKET, help_text="pocket, or the name or path of a causal language model"
    )
    format = forms.ChoiceField(choices=Run.Format.choices, initial="a")
    memo = forms.ChoiceField(choices=Run.Memo.choices, initial="m", label="Stage 1")
    retrieval = forms.ChoiceField(choices=Run.Retrieval.choices, initial="r+R", label="Stage 2")
    seed = forms.IntegerField(initial=0, min_value=0, help_text="the same seed makes the same run")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors:
            try:
                data["recipe"] = typed_recipe(data["base"], self.data)
            except TraceError as error:
                self.add_error(None, str(error))
        return data


def typed_recipe(base: str, posted: Any) -> Recipe:
    """The base's default recipe with what was typed over it."""
    data = deepcopy(asdict(default_recipe(base)))
    for fields in RECIPE_FIELDS.values():
        for name in fields:
            if (typed := posted.get(name, "").strip()) != "":
                *path, last = name.split(".")
                place = data[path[0]] if path else data
                place[last] = typed
    return recipes.from_dict(data)


def recipe_rows(recipe: Recipe, posted: Any) -> list[dict[str, Any]]:
    """The fields as the template draws them: name, label, help, default, what was typed."""
    data = asdict(recipe)
    groups = []
    for title, fields in RECIPE_FIELDS.items():
        rows = []
        for name, (label, help_text) in fields.items():
            *path, last = name.split(".")
            default = (data[path[0]] if path else data)[last]
            rows.append(
                {
                    "name": name,
                    "label": label,
                    "help": help_text,
                    "default": default,
                    "value": posted.get(name, default),
                }
            )
        groups.append({"title": title, "rows": rows})
    return groups


def cell_choices(form: RunForm) -> list[dict[str, Any]]:
    """The three dimensions of the grid as radio cards."""
    groups = []
    titles = {"format": "Token format", "memo": "Stage 1: memorise", "retrieval": "Stage 2: retrieve"}
    texts = {"format": FORMAT_HELP, "memo": MEMO_HELP, "retrieval": RETRIEVAL_HELP}
    for name, title in titles.items():
        chosen = form[name].value()
        options = [
            {
                "value": value,
                "label": label,
                "help": help_text,
                "checked": value == chosen,
            }
            for value, (label, help_text) in texts[name].items()
        ]
        groups.append({"name": name, "title": title, "options": options, "errors": form[name].errors})
    return groups
