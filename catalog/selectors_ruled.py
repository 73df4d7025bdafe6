"""Which tools a rule holds, as the app that knows rules says it in its AppConfig.ready(); nothing imports right."""

from collections.abc import Callable

from django.db.models import Q

RuledTools = Callable[[], Q]
_ruled: list[RuledTools] = []


def tell_ruled_tools(teller: RuledTools) -> None:
    """Give the condition on Tool behind the list's filter "held by a rule"."""
    _ruled[:] = [teller]


def ruled_tools() -> Q | None:
    """The condition; None where no app knows rules."""
    return _ruled[0]() if _ruled else None
