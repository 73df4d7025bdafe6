"""The artefact store that the settings name: snapshots, Stage-1 models and models."""

from django.conf import settings

from trace_site.lib.store import Store


def store() -> Store:
    return Store(settings.STORE_URL, settings.TRACE_HOME / "cache", settings.STORE_OPTIONS)


def engine_store() -> list[str]:
    """How an engine on this machine is told of the same store; STORE_ENDPOINT_URL it reads for itself."""
    return ["--store", settings.STORE_URL, "--cache", str(settings.TRACE_HOME / "cache")]
