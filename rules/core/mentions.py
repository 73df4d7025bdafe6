"""Which tools a text names, in the shapes the checks of a rule read."""

from collections.abc import Iterable

from catalog.core.mentions import NameFinder


class ToolMentions:
    """The finder of a set of tools, in the shapes the checks of a rule read; build it once per catalog."""

    def __init__(self, names: Iterable[str]) -> None:
        self._finder = NameFinder(names)

    def find(self, text: str) -> list[str]:
        """The names in the order of their first mention."""
        return list(dict.fromkeys(name for _, _, name in self._finder.find(text)))

    def spans(self, text: str) -> list[tuple[str, int, int]]:
        """Every mention as (name, start, end), from left to right; of overlapping names the leftmost longest."""
        return [(name, start, end) for start, end, name in self._finder.find(text)]
