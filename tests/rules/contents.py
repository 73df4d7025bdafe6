"""Strategies of valid rules with every kind of text people and attackers write."""

from typing import Any

from hypothesis import strategies as st

from trace_site.lib.letters import entered

AWKWARD = "'\"=+-@＝＋－＠−\t\r\n,;:|<>&\\{}[]/ \u200b\u202e\u2028\x1f’“a1é漢🙂🇪🇺م"


def texts(longest: int = 40) -> st.SearchStrategy[str]:
    """Non-blank text that can be stored: any Unicode, with what breaks CSV, HTML and formulas far above its share."""
    some = st.one_of(
        st.text(st.sampled_from(AWKWARD), min_size=1, max_size=longest),
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=longest
        ),
        st.sampled_from(
            ["=1+1", "'=1+1", "''@x", "a\n-b", "when: x", "tool: y", '"', '"a', "- a\r\n- b", "&&<b>"]
        ),
    )
    return some.filter(lambda text: bool(entered(text).strip()))


def names() -> st.SearchStrategy[str]:
    """Tool names: API/ENDPOINT in printable characters."""
    part = st.one_of(
        st.text(st.sampled_from("=+-@'\";,<>&abcÄ漢🙂"), min_size=1, max_size=8),
        st.sampled_from(["Pay", "get;v=2", "-x", "<<a&&b>>", '"q"', "'=a"]),
    )
    return st.builds("{}/{}".format, part, part).filter(str.isprintable)


@st.composite
def rules(draw: st.DrawFn, pool: st.SearchStrategy[str] | None = None) -> dict[str, Any]:
    """One rule in the exchange format, its tools drawn from `pool`."""
    tools = draw(st.lists(names() if pool is None else pool, min_size=2, max_size=5, unique=True))
    some = st.sampled_from(tools)
    clause = st.fixed_dictionaries(
        {"when": texts(), "route_to": some},
        optional={"exception": st.booleans(), "signals": st.lists(texts(12), max_size=3)},
    )
    test = st.fixed_dictionaries(
        {"query": texts(), "tools": st.lists(some, min_size=1, max_size=2, unique=True)}
    )
    return {
        "tool_name": tools[0],
        "confusables": tools[1:],
        "rule_text": draw(texts(80)),
        "clauses": draw(st.lists(clause, max_size=3)),
        "tests": draw(st.lists(test, max_size=3)),
    }
