"""The checks of what people choose for a run or a snapshot; each refusal names the option."""

from catalog.models import Domain
from rules.models import Rule
from trace_site.lib.errors import TraceError

MAX_SAMPLES = 1_000_000


def published(domain: str, code: str) -> None:
    rules = Rule.objects.filter(code=code, published__isnull=False)
    if code and not (rules.filter(domain=domain) if domain else rules).exists():
        raise TraceError(
            f"there is no published rule '{code}'{f' in {domain}' if domain else ''}.",
            code="no_such_rule",
            where="--rule",
        )


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise TraceError(
            f"'{value}' is not known.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use one of: {', '.join(allowed)}.",
        )


def count(name: str, value: int, least: int = 1) -> None:
    if not least <= value <= MAX_SAMPLES:
        raise TraceError(
            f"{value} is out of range.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use {least} to {MAX_SAMPLES:,}.",
        )


def domain(slug: str | None) -> str:
    if slug and not Domain.objects.filter(pk=slug).exists():
        known = ", ".join(Domain.objects.values_list("pk", flat=True)) or "none yet"
        raise TraceError(
            f"there is no domain '{slug}'.",
            code="no_such_domain",
            where="--domain",
            hint=f"Known domains: {known}.",
        )
    return slug or ""
