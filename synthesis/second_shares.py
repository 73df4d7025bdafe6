"""Which samples get a blind second reading: a share per domain and style, drawn by lot over the samples' keys."""

import hashlib

from django.db.models import F, Q

from synthesis.models import Sample, SecondShare


def drawn_for_second(sample: Sample) -> bool:
    """The same answer for the same sample and share, whoever asks and when."""
    return _place(sample.key) < share_of(sample.domain_id, sample.style)


def share_of(domain: str, style: str) -> float:
    """The most specific share set: domain and style, then domain, then style, then all; 0 where none is."""
    rows = SecondShare.objects.filter(Q(domain=None) | Q(domain=domain), style__in={style, ""})
    row = rows.order_by(F("domain").asc(nulls_last=True), "-style").first()
    return row.share if row else 0.0


def _place(key: str) -> float:
    """A sample's place in the draw, in [0, 1)."""
    return int.from_bytes(hashlib.sha256(f"second|{key}".encode()).digest()[:8]) / 2**64
