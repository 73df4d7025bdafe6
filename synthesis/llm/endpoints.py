"""The language-model endpoints of the three roles, from settings: generator, teacher and judge, alike or different."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from synthesis.llm.writers import ROLES
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Budget, Client, Endpoint, Ledger, check_url


def configured() -> bool:
    """Whether every role has an endpoint: the common one, or its own."""
    return all(settings.LLM_BASE_URL or getattr(settings, f"LLM_{role.upper()}_BASE_URL") for role in ROLES)


def endpoints(models: Mapping[str, str] | None = None) -> dict[str, Endpoint]:
    """{role: its endpoint}; `models` names those that a run was started with, in place of the settings'.

    Raises TraceError naming the setting that is missing or wrong.
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
    def own(part: str) -> Any:
        return getattr(settings, f"LLM_{role.upper()}_{part}")

    base_url = own("BASE_URL") or settings.LLM_BASE_URL
    for url in filter(None, (base_url, settings.LLM_BASE_URL)):
        check_url(url, settings.LLM_ALLOWED_HOSTS)
    # the common key is for the common host: an endpoint elsewhere must not learn it
    common_key = settings.LLM_API_KEY if urlsplit(base_url)[:2] == urlsplit(settings.LLM_BASE_URL)[:2] else ""
    return Endpoint(
        base_url=base_url,
        model=model or own("MODEL"),
        api_key=own("API_KEY") or common_key,
        timeout=settings.LLM_TIMEOUT_SECONDS,
        attempt_timeout=min(settings.LLM_ATTEMPT_SECONDS, settings.LLM_TIMEOUT_SECONDS),
        concurrency=settings.LLM_CONCURRENCY,
        price_in=own("PRICE_IN"),
        price_out=own("PRICE_OUT"),
        answers_as=tuple(own("ANSWERS_AS")),
        allowed_hosts=tuple(settings.LLM_ALLOWED_HOSTS),
    )


def recorded(found: Mapping[str, Endpoint]) -> list[dict[str, str]]:
    """What a run puts down about its endpoints: role, host and model; no key."""
    return [
        {"role": role, "host": urlsplit(one.base_url).netloc, "model": one.model}
        for role, one in found.items()
    ]


def clients(found: Mapping[str, Endpoint], ledger: Ledger, budget: Budget | None = None) -> dict[str, Client]:
    """{role: a client}; roles of one endpoint share one, all share the budget."""
    made = {
        endpoint: Client(endpoint, ledger=ledger, budget=budget) for endpoint in dict.fromkeys(found.values())
    }
    return {role: made[endpoint] for role, endpoint in found.items()}
