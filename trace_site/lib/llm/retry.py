"""When a call that failed may be sent again."""

import math
import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

SECONDS = re.compile(r"\d{1,300}(\.\d{0,300})?|\.\d{1,300}", re.ASCII)
LONGEST = 1e9  # seconds; a header may name any number


def retry_after(header: str | None, date: str | None = None) -> float | None:
    """Seconds from a Retry-After header, in seconds or as an HTTP date; None when absent or unreadable.

    date: the answer's Date header. A date counts from it or from our clock, whichever leaves more to wait.
    """
    header = (header or "").strip()
    if SECONDS.fullmatch(header):
        return min(float(header), LONGEST)
    at = _date(header)
    if at is None:
        return None
    return max(0.0, *((at - now).total_seconds() for now in (datetime.now(UTC), _date(date or "")) if now))


def told_to_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds the answer asks to wait, by Retry-After or by the finer retry-after-ms; None when it says nothing."""
    told = [retry_after(headers.get("retry-after"), headers.get("date"))]
    fine = retry_after(headers.get("retry-after-ms"))
    if fine is not None and SECONDS.fullmatch(headers.get("retry-after-ms", "").strip()):
        told.append(fine / 1000)
    return max((one for one in told if one is not None), default=None)


def backed_off(failures: int, *, base: float = 0.25, most: float = 8.0) -> float:
    """Seconds before the next attempt, after `failures` (1, 2, ...): doubling, half of it random."""
    full = min(most, base * math.pow(2, min(failures, 30)))
    return full * random.uniform(0.5, 1.0)


def _date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at.replace(tzinfo=at.tzinfo or UTC)
