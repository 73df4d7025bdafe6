"""The cache of a test: in memory, its own, with the counting that the site's has."""

from django.core.cache.backends.locmem import LocMemCache


class CountingMemory(LocMemCache):
    def count(self, name: str, more: int, seconds: int) -> tuple[int, int]:
        self.add(name, 0, timeout=seconds)
        return self.incr(name, more), seconds

    count_often = count
