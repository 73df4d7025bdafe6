"""How often somebody may ask: counts in the shared cache, in windows of a fixed length by its clock, which begin with
their first request.

While the cache is away nothing is counted and everybody may. Guesses of passwords do not rest on it: people/sessions.py
counts them in the database.
"""

import logging
import threading
import time
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, cast

from django.conf import settings
from django.core.cache import cache
from django.core.cache.backends.redis import RedisCache
from django.http import HttpRequest
from django.utils.functional import cached_property
from redis.exceptions import RedisError
from rest_framework.throttling import BaseThrottle

from trace_site.lib.errors import TraceError

log = logging.getLogger(__name__)
MOST_DESCRIPTIONS = 20  # a minute, for one address


def address_of(request: HttpRequest) -> str:
    """Where a request comes from, as the last of our PROXIES saw it; empty when that is no address."""
    told = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    if settings.PROXIES and len(told) >= settings.PROXIES:
        given = told[-settings.PROXIES]
    else:
        given = request.META.get("REMOTE_ADDR") or ""
    return _addresses(given)[0]


def client_of(request: HttpRequest) -> str | None:
    """The address to count by: of IPv6 the /64, all of which one host may use; None when there is none."""
    return counted_address(address_of(request))


def counted_address(address: str) -> str | None:
    return _addresses(address)[1]


@lru_cache(maxsize=4096)
def _addresses(given: str) -> tuple[str, str | None]:
    try:
        parsed = ip_address(given)
    except ValueError:
        return "", None
    address = getattr(parsed, "ipv4_mapped", None) or parsed
    if isinstance(address, IPv6Address):
        return str(address), str(ip_network((int(address), 64), strict=False).network_address)
    return str(address), str(address)


class CountingCache(RedisCache):
    """Redis, with what counting needs in one round trip and by one client; Django makes a client anew for each command,
    which takes longer than the command."""

    @cached_property
    def client(self) -> Any:
        return self._cache.get_client(write=True)

    def count(self, name: str, more: int, seconds: int) -> tuple[int, int]:
        """How many there are in this window with `more` of them, and the seconds after which they are forgotten."""
        key = self.make_key(name)
        asked = self.client.pipeline(transaction=False).set(key, 0, ex=seconds, nx=True)
        _, made, left = asked.incrby(key, more).pttl(key).execute()
        if left < 0:  # it ended in between
            self.client.expire(key, seconds)
            left = 1000 * seconds
        return int(made), -(-left // 1000)

    def count_often(self, name: str, more: int, seconds: int) -> tuple[int, int]:
        """As `count`, by the processes together within TOLD_SECONDS: each adds up what it counts meanwhile."""
        with _telling:
            made, left, untold, at = _told.get(name, (0, 0, 0, 0.0))
            if is_known := time.monotonic() - at < TOLD_SECONDS:
                _told[name] = made, left, untold + more, at
            else:
                if len(_told) >= MOST_TOLD:
                    _told.clear()
                _told[name] = made, left, 0, time.monotonic()
        if is_known:
            return made + untold + more, left
        made, left = self.count(name, untold + more, seconds)
        with _telling:
            _, _, untold, at = _told.get(name, (0, 0, 0, 0.0))
            _told[name] = made, left, untold, at
        return made + untold, left


TOLD_SECONDS = 0.2
MOST_TOLD = 10_000
# {name: (all that were counted, for how long they are, ours since then, when that was)}
_told: dict[str, tuple[int, int, int, float]] = {}
_telling = threading.Lock()


def seconds_to_wait(
    what: str, who: object, *, most: int, seconds: int, more: int = 1, often: bool = False
) -> int:
    """Count so many more; 0 while there were at most `most` in this window, else how long it still lasts. `often`: so
    many ask that what other processes counted may be known a little later."""
    count = cast(Any, cache).count_often if often else cast(Any, cache).count
    try:
        made, left = count(f"throttle:{what}:{who}", more, seconds)
    except RedisError as error:
        log.warning("%s is not counted: %s", what, error)
        return 0
    return max(1, left) if made > most else 0


def refuse_beyond(what: str, who: object, *, most: int, seconds: int) -> None:
    """Raises TraceError `rate_limited`; its `retry_after` is in seconds."""
    if waiting := seconds_to_wait(what, who, most=most, seconds=seconds):
        minutes = -(-waiting // 60)
        raise TraceError(
            "that was asked too often.",
            code="rate_limited",
            hint=f"Try again in {minutes} minute{'' if minutes == 1 else 's'}.",
            extra={"retry_after": waiting},
        )


class ByAddress(BaseThrottle):
    """Requests a minute from one address of those that nobody is known by, failed tokens among them. A view says by
    `rate` what its requests are counted as."""

    waiting = 0

    def allow_request(self, request: Any, view: Any) -> bool:
        most = getattr(settings, f"{view.rate}_ADDRESS_RATE")
        return self.is_below(f"{view.rate.lower()}-address", client_of(request), most)

    def is_below(self, what: str, who: object, most: int, more: int = 1) -> bool:
        self.waiting = seconds_to_wait(what, who, most=most, seconds=60, more=more, often=True)
        return not self.waiting

    def wait(self) -> float:
        return self.waiting


class OfDescription(ByAddress):
    """Strangers may read what the API says of itself, but each copy takes most of a second to make."""

    def allow_request(self, request: Any, view: Any) -> bool:
        return self.is_below("api-description", client_of(request), MOST_DESCRIPTIONS)


class ByToken(ByAddress):
    """Requests of one person, and of each service token, wherever they come from and whatever they may."""

    def allow_request(self, request: Any, view: Any, more: int = 1) -> bool:
        service = getattr(request.auth, "kind", "") == "service"
        who = f"token-{request.auth.pk}" if service else f"user-{request.user.pk}"
        return self.is_below(view.rate.lower(), who, getattr(settings, f"{view.rate}_RATE"), more)
