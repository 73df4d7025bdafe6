"""What the apps say of themselves in their AppConfigs, so that nothing imports to its right.

`areas` (see access.py), `larger_bodies` (limits.py), `long_views`, `program_views`, `at_start` (asgi.py), `events` of
webhooks, `notices`, `audit_pages`, `audit_names` and `audit_veils` of the audit list, `impact`: {"tools" or "rules": a
function of ids that counts what a change of them would touch}, and the functions of ids `made_of_snapshots` (lineage of
samples), `model_scores` (figures of models), `failing_requests` (of a domain) and `rule_wording` (suggested rules).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from django.apps import apps
from django.utils.module_loading import import_string

Subject = Literal["tools", "rules"]


@cache
def declared_by_apps(attribute: str) -> dict[str, Any]:
    """The entries of all apps' dicts of this name, in the order of the apps."""
    return {
        key: value for app in apps.get_app_configs() for key, value in getattr(app, attribute, {}).items()
    }


@cache
def routes_named(attribute: str) -> frozenset[str]:
    """Names of addresses that the apps list under this name, between blanks."""
    return frozenset(name for app in apps.get_app_configs() for name in getattr(app, attribute, "").split())


def functions_named(attribute: str) -> list[Callable[..., Any]]:
    """Those that apps name under this attribute, in the order of the apps."""
    names = (getattr(app, attribute, "") for app in apps.get_app_configs())
    return [import_string(name) for name in names if name]


@dataclass(frozen=True, slots=True)
class Impact:
    """`name` is a stable key such as `samples`; `label` is read after the count; `blocks` is why undoing is refused."""

    name: str
    count: int
    label: str
    url: str = ""
    blocks: str = ""

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "count": self.count, "label": self.label}


def impact_of(subject: Subject, ids: Iterable[int]) -> list[Impact]:
    """Every app's lines, in the order of the apps; for rules: what publishing another version makes stale."""
    wanted = list(ids)
    named = [getattr(app, "impact", {}).get(subject) for app in apps.get_app_configs()]
    counts: list[Callable[[list[int]], Iterable[Impact]]] = [import_string(name) for name in named if name]
    return [line for count in counts for line in count(wanted)] if wanted else []
