"""The forms that start a run and raise its budget. What they cannot read, or the service refuses, stands beside it."""

from typing import Any

from django import forms

from rules.models import Rule
from synthesis.core.queries import AXES
from synthesis.core.recipe import Recipe, default_recipe, read_recipe
from synthesis.generate.services import ANCHORS, PER_RULE
from synthesis.llm.ledger import MOST_SPENT
from synthesis.llm.writers import configured
from synthesis.models import SynthesisRun
from synthesis.samples.forms import domain_choices
from trace_site.lib.errors import TraceError

WRITERS = [("offline", "offline"), ("recorded", "recorded"), ("llm", "language model")]
OUTDATED = [("rewrite", "write them again"), ("keep", "keep them")]


def _number(initial: Any, least: float, most: float, *, whole: bool = True) -> forms.Field:
    bounds: dict[str, Any] = {"initial": initial, "min_value": least, "max_value": most, "required": False}
    return forms.IntegerField(**bounds) if whole else forms.FloatField(**bounds)


class SynthesisForm(forms.Form):
    """An empty number keeps its default; an empty budget is no budget."""

    branch = forms.ChoiceField(choices=SynthesisRun.Branch.choices, initial="rule")
    writer = forms.ChoiceField(choices=WRITERS, initial="offline")
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    rule = forms.CharField(required=False, max_length=200)
    per_rule = _number(12, 1, PER_RULE)
    anchors = _number(100, 1, ANCHORS)
    seed = _number(0, 0, 2**53)
    underspecified = forms.BooleanField(required=False)
    outdated = forms.ChoiceField(choices=OUTDATED, initial="rewrite", required=False)
    calls = _number(None, 1, 10**9)
    tokens = _number(None, 1, 10**12)
    money = _number(None, 0.01, 10**7, whole=False)
    retries = _number(None, 0, 20)
    query_temperature = _number(None, 0, 2, whole=False)
    query_few_shots = _number(None, 0, 20)
    query_per_call = _number(None, 1, 20)
    trace_temperature = _number(None, 0, 2, whole=False)
    trace_permission_share = _number(None, 0, 1, whole=False)
    trace_verbatim = forms.BooleanField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        recipe = default_recipe()
        for axis in AXES:
            self.fields[f"least_{axis}"] = _number(recipe.judge.thresholds[axis], 1, 5)
        for name, field in self.fields.items():
            stage, _, knob = name.partition("_")
            if stage in ("query", "trace"):
                field.initial = getattr(getattr(recipe, stage), knob)
        self.fields["retries"].initial = recipe.retries
        for name, field in self.fields.items():
            field.widget.attrs["aria-describedby"] = f"about_{name}"
            if isinstance(field, forms.FloatField):
                field.widget.attrs["step"] = "any"

    @property
    def recipe_fields(self) -> list[forms.BoundField]:
        names = ("retries", "query_", "trace_temperature", "trace_permission")
        return [self[name] for name in self.fields if name.startswith(names)]

    @property
    def threshold_fields(self) -> list[tuple[str, forms.BoundField]]:
        return [(axis, self[f"least_{axis}"]) for axis in AXES]

    @property
    def recipe_open(self) -> bool:
        """Whether something behind the disclosure was changed or refused."""
        names = [name for name in self.fields if name.startswith(("retries", "query_", "trace_", "least_"))]
        return self.is_bound and any(name in self.errors or name in self.changed_data for name in names)

    def clean_writer(self) -> str:
        writer: str = self.cleaned_data["writer"]
        if writer == "llm" and not configured():
            raise forms.ValidationError(
                "No endpoint is configured: set LLM_BASE_URL (or one for each role), or choose the offline writers."
            )
        return writer

    def clean(self) -> dict[str, Any]:
        """The rule is typed as `CODE`, or `domain/CODE` where two domains have the code."""
        data: dict[str, Any] = self.cleaned_data
        typed = data.get("rule", "").strip()
        if not typed or data.get("branch") != "rule":
            return data
        domain, _, code = typed.rpartition("/")
        domain = domain or data.get("domain", "")
        rules = Rule.objects.filter(code__iexact=code)
        found = list((rules.filter(domain=domain) if domain else rules).order_by("domain_id")[:2])
        if not found:
            self.add_error("rule", f"There is no rule {code}{f' in {domain}' if domain else ''}.")
        elif len(found) > 1:
            self.add_error("rule", "Several domains have a rule of this code: choose the domain as well.")
        elif found[0].published_id is None:
            self.add_error("rule", f"{found[0].code} is not published, so nothing may be written for it yet.")
        else:
            data["rule"], data["domain"] = found[0].code, found[0].domain_id
        return data

    def options(self) -> dict[str, Any]:
        """What `services.synthesis_start` and the estimate take, from what could be read of the form."""
        data = getattr(self, "cleaned_data", {})

        def read(name: str) -> Any:
            value = data.get(name)
            return self.fields[name].initial if value in (None, "") else value

        branch = read("branch")
        return {
            **{name: read(name) for name in ("writer", "per_rule", "anchors", "seed")},
            "branch": branch,
            "domain": data.get("domain", ""),
            "rule": data.get("rule", "") if branch == SynthesisRun.Branch.RULE else "",
            "underspecified": bool(data.get("underspecified")),
            "outdated": read("outdated"),
            "budget": {
                name: data[name] for name in ("calls", "tokens", "money") if data.get(name) is not None
            },
            "recipe": self.recipe(read),
        }

    def recipe(self, read: Any) -> Recipe:
        values = default_recipe().as_dict()
        values["retries"] = read("retries")
        for name in self.fields:
            stage, _, knob = name.partition("_")
            if stage in ("query", "trace"):
                values[stage][knob] = read(name)
            elif stage == "least":
                values["judge"]["thresholds"][knob] = read(name)
        return read_recipe(values)

    def refuse(self, error: TraceError) -> None:
        """The service's refusal, beside the field it names; else above the form."""
        name = error.where.removeprefix("--").removeprefix("budget.").replace("-", "_")
        if name in self.fields:
            self.add_error(name, f"{error.message} {error.hint}".strip())
        else:  # it names an endpoint or a setting, or nothing on the form
            self.add_error("writer" if error.code.startswith("llm_") else None, str(error))


class BudgetForm(forms.Form):
    """New limits of a run that goes on; what is left empty stays as it is."""

    calls = forms.IntegerField(required=False, min_value=1, max_value=MOST_SPENT)
    tokens = forms.IntegerField(required=False, min_value=1, max_value=MOST_SPENT)
    money = forms.FloatField(required=False, min_value=0, max_value=MOST_SPENT)

    def limits(self) -> dict[str, Any]:
        """Raises TraceError for what is no number; the service judges the numbers."""
        if not self.is_valid():
            name = next(iter(self.errors))
            raise TraceError(
                "is no number a budget can have.",
                code="bad_option",
                where=f"budget.{name}",
                hint=f"Use digits, at most {MOST_SPENT:,}, or leave it empty.",
            )
        return {name: value for name, value in self.cleaned_data.items() if value is not None}
