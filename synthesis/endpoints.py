"""The language-model endpoints of the three roles, from settings: generator, teacher and judge, alike or different."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from django.conf import settings

from synthesis.writers.llm import ROLES
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Client, Endpoint, Ledger


def endpoints(models: Mapping[str, str] | None = None) -> dict[str, Endpoint]:
    """{role: its endpoint}; `models` names those that a run was started with, in place of the settings'.

    Raises TraceError naming the setting that is missing.
    """
    found = {role: _endpoint(role, (models or {}).get(role, "")) for role in ROLES}
    for role, endpoint in found.items():
        if endpoint.base_url and not endpoint.model:
            raise TraceError(
                "no model is named.",
                code="llm_not_configured",
                where=f"LLM_{role.upper()}_MODEL",
                hint="Set it, or use --writer offline.",
            )
    return found


def _endpoint(role: str, model: str) -> Endpoint:
    name = f"LLM_{role.upper()}"
    return Endpoint(
        base_url=getattr(settings, f"{name}_BASE_URL", "") or settings.LLM_BASE_URL,
        model=model or getattr(settings, f"{name}_MODEL"),
        api_key=getattr(settings, f"{name}_API_KEY", "") or settings.LLM_API_KEY,
        timeout=settings.LLM_TIMEOUT_SECONDS,
        attempt_timeout=settings.LLM_TIMEOUT_SECONDS,
        concurrency=settings.LLM_CONCURRENCY,
    )


def recorded(found: Mapping[str, Endpoint]) -> list[dict[str, str]]:
    """What a run puts down about its endpoints: role, host and model; no key."""
    return [
        {"role": role, "host": urlsplit(one.base_url).netloc, "model": one.model}
        for role, one in found.items()
    ]


def clients(found: dict[str, Endpoint], ledger: Ledger) -> dict[str, Client]:
    """{role: a client}; roles of one endpoint share one."""
    made = {endpoint: Client(endpoint, ledger=ledger) for endpoint in set(found.values())}
    return {role: made[endpoint] for role, endpoint in found.items()}
