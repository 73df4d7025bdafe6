"""A share with its 95 % Wilson interval: how far k of n tells anything."""

import math
from dataclasses import dataclass

Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Rate:
    """hits of n; n may be an effective number. Nothing counted: no value, and an interval from 0 to 1."""

    hits: float
    n: float
    value: float | None
    low: float
    high: float


def wilson(hits: float, n: float, z: float = Z95) -> Rate:
    """The score interval of Wilson (1927); 0 <= hits <= n, z: the normal quantile of its two sides."""
    if n <= 0:
        return Rate(0, 0, None, 0.0, 1.0)
    value = hits / n
    spread = z * math.sqrt(value * (1 - value) / n + z**2 / (4 * n**2))
    middle, scale = value + z**2 / (2 * n), 1 + z**2 / n
    low, high = max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
    return Rate(hits, n, value, min(low, value), max(high, value))
