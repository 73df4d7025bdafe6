"""Which content of a model hub is meant by a name: one commit, the same for everybody and for ever.

In: `NAME`, where REVISIONS has its commit, or `NAME@COMMIT`; or a folder, which needs none. A name alone would be
whatever its owner published last, so it is refused.
"""

import re
from pathlib import Path
from typing import Any

from trace_site.lib.errors import TraceError, cut

# what this project's settings and documents name; a full commit of the model's repository
REVISIONS = {"google/gemma-4-E4B-it": "ee0ef6023621cff504d758262d4e04895a5af4a2"}
COMMIT = re.compile(r"[0-9a-f]{40}")


def revision_of(source: str) -> str:
    """The commit that is meant; empty of a folder, and of a name without one."""
    if Path(source).is_dir():
        return ""
    name, _, named = source.partition("@")
    return found if COMMIT.fullmatch(found := named or REVISIONS.get(name, "")) else ""


def pinned(source: str) -> tuple[str, dict[str, Any]]:
    """What `from_pretrained` is asked for: a folder or a name, and the revision of a name. Raises TraceError."""
    if Path(source).is_dir():
        return source, {}
    if not (revision := revision_of(source)):
        raise TraceError(
            "is neither a folder here nor NAME@COMMIT of a model hub.",
            code="no_revision",
            where=cut(source, 200),
            permanent=True,
            hint="The commit is the 40 hex digits that the hub shows; a name alone is whatever was published last.",
        )
    return source.partition("@")[0], {"revision": revision}
