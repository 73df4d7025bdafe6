"""Every body, field and plan has a limit, and the largest that is allowed costs little."""

from django.urls import URLResolver, get_resolver

from trace_site import limits


def names() -> set[str]:
    """Every route by its name with its namespace."""
    found = set()

    def walk(patterns, prefix=""):
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, f"{prefix}{pattern.namespace}:" if pattern.namespace else prefix)
            else:
                found.add(f"{prefix}{pattern.name}")

    walk(get_resolver().url_patterns)
    return found


def test_larger_bodies_are_read_at_addresses_that_exist(settings):
    assert set(limits.LARGER) <= names()
    assert limits.most_bytes("/catalog/imports/new/") > limits.CATALOG_FILE
    assert limits.most_bytes("/login/") == limits.most_bytes("/no/such/page") == limits.BODY
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == limits.IN_MEMORY


def test_a_larger_body_is_refused_before_it_is_read_and_before_who_sent_it_is_asked(client, db):
    for path, kind in (("/login/", "text/plain"), ("/api/v1/rules/check", "application/json")):
        at = {"content_type": "text/plain"}
        assert client.generic("POST", path, b"x" * limits.BODY, **at).status_code != 413
        refused = client.generic("POST", path, b"x" * (limits.BODY + 1), **at)
        assert refused.status_code == 413 and refused["Content-Type"].startswith(kind)
        assert b"1,000,000 bytes" in refused.content
