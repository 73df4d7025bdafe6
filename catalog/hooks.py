"""Who must know when tools change: later apps register a callable in their AppConfig.ready(), nothing imports right."""

from collections.abc import Callable, Iterable

ToolsChanged = Callable[[list[int]], None]
_listeners: list[ToolsChanged] = []


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
