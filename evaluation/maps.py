"""The map of a clustering: where each cluster lies. Computed when somebody first looks, then kept with the clustering.

A frozen clustering has one map for ever, so what a person has seen stays where it was.
"""

from functools import lru_cache

import numpy as np
from django.db import connection, transaction

from evaluation.core.layout import layout
from evaluation.models import ClusterPlace

Place = tuple[int, int, int]  # x, y, radius
MAP_LOCK = 7_210_402  # first half of an advisory lock: one layout of a clustering at a time
MEANS = """
SELECT c.id, cardinality(c.tool_ids), avg(t.embedding)::text FROM catalog_cluster c
CROSS JOIN LATERAL unnest(c.tool_ids) AS member(id) JOIN catalog_tool t ON t.id = member.id
WHERE c.clustering_id = %s GROUP BY c.id ORDER BY c.position, c.id
"""


@lru_cache(maxsize=64)
def places(clustering: int) -> dict[int, Place]:
    """{cluster: (x, y, radius)} of every cluster of the clustering."""
    return stored(clustering) or _laid_out(clustering)


def stored(clustering: int) -> dict[int, Place]:
    rows = ClusterPlace.objects.filter(cluster__clustering=clustering)
    return {pk: (x, y, radius) for pk, x, y, radius in rows.values_list("cluster_id", "x", "y", "radius")}


@transaction.atomic
def _laid_out(clustering: int) -> dict[int, Place]:
    """Seconds for thousands of clusters; whoever asks at the same time waits for the first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [MAP_LOCK, clustering % 2**31])
    if found := stored(clustering):
        return found
    ids, sizes, rows = means(clustering)
    points, radii = layout(rows, sizes)
    made = [
        ClusterPlace(cluster_id=pk, x=int(x), y=int(y), radius=int(radius))
        for pk, (x, y), radius in zip(ids, points, radii, strict=True)
    ]
    ClusterPlace.objects.bulk_create(made, batch_size=2000)
    return {row.cluster_id: (row.x, row.y, row.radius) for row in made}


def means(clustering: int) -> tuple[list[int], np.ndarray, np.ndarray]:
    """(cluster ids, sizes, mean embedding of each cluster's tools); zeros where no tool is embedded."""
    with connection.cursor() as cursor:
        cursor.execute(MEANS, [clustering])
        found = cursor.fetchall()
    texts = [text.strip("[]") if text else "" for _, _, text in found]
    width = max((text.count(",") + 1 for text in texts if text), default=1)
    rows = np.zeros((len(found), width), dtype=np.float32)
    for place, text in enumerate(texts):
        if text:
            rows[place] = np.fromstring(text, dtype=np.float32, sep=",")
    return [pk for pk, _, _ in found], np.array([size for _, size, _ in found], dtype=np.int64), rows
