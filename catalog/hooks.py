"""What later apps tell the catalog: they register a callable in their AppConfig.ready(), nothing imports right."""

from collections.abc import Callable, Iterable

from django.db.models import Q

ToolsChanged = Callable[[list[int]], None]
RuledTools = Callable[[], Q]
_listeners: list[ToolsChanged] = []
_ruled: list[RuledTools] = []


def on_tools_changed(listener: ToolsChanged) -> None:
    """Be called with the ids of the tools that an import or an undo added, changed, retired or brought back.

    It runs inside the writer's transaction: what it raises undoes the write.
    """
    if listener not in _listeners:
        _listeners.append(listener)


def tools_changed(ids: Iterable[int]) -> None:
    """Tell every listener, in the order of the apps; silent when nothing changed."""
    changed = sorted(set(ids))
    if changed:
        for listener in _listeners:
            listener(changed)


def tell_ruled_tools(teller: RuledTools) -> None:
    """Say which tools a rule holds, as a condition on Tool: the list's filter "held by a rule"."""
    _ruled[:] = [teller]


def ruled_tools() -> Q | None:
    """The condition; None where no app knows rules."""
    return _ruled[0]() if _ruled else None
