"""What stands between a model and the champion's place: the gate's word, and who may go past it.

The app that evaluates names in its AppConfig the function that gives the word (`model_gate`), as it does for scores.
A passed gate lets the model through; "cannot tell" needs the consequences confirmed; a failed gate, or none, needs the
written override of an admin. Only the first model, when nobody can be worse off, goes ungated.
"""

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.utils.module_loading import import_string

from trace_site.access import ADMIN, roles_of
from trace_site.lib.errors import TraceError
from training.models import Model

PASS, FAIL, CANNOT_TELL = "pass", "fail", "cannot tell"
SHORTEST, LONGEST = 20, 2000  # characters of an override
NOTHING, CONFIRM, OVERRIDE = "nothing", "confirm", "override"


@dataclass(frozen=True, slots=True)
class GateWord:
    """`verdict`: "" where no report counts. `said`: one sentence. `changes`: what callers would notice, a sentence
    each. `url`: the report, or where one is asked for."""

    verdict: str = ""
    said: str = "Nothing here measures models, so nobody knows."
    report: int | None = None
    url: str = ""
    changes: tuple[str, ...] = ()
    running: bool = False  # a job is making the report

    def as_dict(self) -> dict[str, Any]:
        """As the move of the alias keeps it."""
        return {"report": self.report, "verdict": self.verdict, "said": self.said}


def gate_word(model: int, champion: int | None) -> GateWord:
    """What is known of the model against this champion (None: there is none)."""
    named = [name for app in apps.get_app_configs() if (name := getattr(app, "model_gate", ""))]
    word: GateWord = import_string(named[0])(model, champion) if named else GateWord()
    return word


def needs(word: GateWord, champion: int | None) -> str:
    """What a promotion needs: NOTHING, CONFIRM or OVERRIDE."""
    if word.verdict == PASS:
        return NOTHING
    if word.verdict == CANNOT_TELL or (not word.verdict and champion is None):
        return CONFIRM
    return OVERRIDE


def check(
    *, model: Model, champion: int | None, actor: Any, override: str, confirmed: bool, report: int | None
) -> tuple[GateWord, str]:
    """The word the promotion rests on, and the override it needed ("": none).

    Raises TraceError `gate_failed`, `no_gate`, `not_confirmed`, `short_override`, `not_allowed`, or `stale_preview`
    when `report`, which the actor has read, is not the one that counts now.
    """
    word = gate_word(model.pk, champion)
    extra = {**word.as_dict(), "champion": champion}
    if report is not None and report != word.report:
        problem = f"gate report {report} is not the one that counts for model {model.pk} now."
        raise TraceError(problem, code="stale_preview", hint=f"Read what holds now: {word.said}", extra=extra)
    needed, override = needs(word, champion), override.strip()
    if needed == NOTHING or (needed == CONFIRM and confirmed):
        return word, ""
    if needed == CONFIRM and not override:  # an admin's own words are more than a tick, and are kept as such
        hint = (
            "Read what changes for callers and confirm it: confirm in the API, --confirm on the command line."
        )
        raise TraceError(word.said, code="not_confirmed", hint=hint, extra=extra)
    if not override:
        hint = (
            f"An admin may promote it all the same by saying why in {SHORTEST} characters or more (override)."
        )
        code = "gate_failed" if word.verdict == FAIL else "no_gate"
        raise TraceError(word.said, code=code, hint=hint, extra=extra)
    if not SHORTEST <= len(override) <= LONGEST:
        problem = f"must say why in {SHORTEST} to {LONGEST} characters, not {len(override)}."
        raise TraceError(problem, code="short_override", where="override", extra=extra)
    if actor is None or ADMIN not in roles_of(actor):
        hint = "Name one: the command takes --by USERNAME."
        raise TraceError("an override is an admin's own word.", code="not_allowed", hint=hint, extra=extra)
    return word, override
