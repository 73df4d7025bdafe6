"""The components of the design system: one tag each, so that a tool, a state or a number looks the same everywhere."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django import template
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from trace_site.jobs import Job
from trace_site.lib.cells import readable
from trace_site.lib.worddiff import Part, word_diff

register = template.Library()
register.filter("words", readable)

# label, url name, icon; None starts a new group. What one may not read is left out.
NAVIGATION: list[tuple[str, str, str] | None] = [
    ("Coverage", "home", "coverage"),
    ("Catalog", "catalog:list", "catalog"),
    ("Clusters", "clusters", "clusters"),
    ("Rules", "rules:list", "rules"),
    ("Changes", "rules:requests", "changes"),
    None,
    ("Synthesis", "synthesis:list", "synthesis"),
    ("Prompts", "synthesis:prompts", "prompts"),
    ("Review", "synthesis:review", "review"),
    ("Snapshots", "synthesis:snapshots", "snapshots"),
    ("Runs", "training:list", "runs"),
    ("Evaluation", "evaluation:list", "evaluation"),
    ("Playground", "evaluation:playground", "playground"),
    None,
    ("Jobs", "jobs:list", "jobs"),
    ("Audit", "audit", "audit"),
]

# pages that belong to an entry without lying under its address
ALSO = {
    "synthesis:review": ("synthesis/batches", "synthesis/quality", "synthesis/team", "synthesis/guidelines"),
    "clusters": ("evaluation/what-if",),
    "rules:list": ("evaluation/loop",),
    "training:list": ("evaluation/gate",),
}

LONGEST_DIFF = 30_000  # characters; comparing more word by word takes seconds
BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_./:-])(?=\w)")


@register.simple_tag
@lru_cache(maxsize=256)
def icon(name: str, label: str = "") -> SafeString:
    """A symbol of icons.svg; decorative unless labelled."""
    role = format_html('role="img" aria-label="{}"', label) if label else SafeString('aria-hidden="true"')
    return format_html('<svg class="icon" {}><use href="{}#{}"></use></svg>', role, static("icons.svg"), name)


@register.simple_tag(takes_context=True)
def navigation(context: template.Context) -> list[dict[str, Any]]:
    """Groups' items as {label, href, icon, here, starts_group}."""
    path = context["request"].path
    items: list[dict[str, Any]] = []
    starts_group = False
    for entry in NAVIGATION:
        if entry is None:
            starts_group = True
        elif entry[1] in context["opens"]:
            label, name, symbol = entry
            items.append({"label": label, "href": reverse(name), "icon": symbol, "name": name})
            items[-1]["starts_group"], starts_group = starts_group, False
    roots = {item["href"]: item for item in items}
    for item in items:
        roots |= {f"/{place}/": item for place in ALSO.get(item["name"], ())}
    here = max((root for root in roots if path.startswith(root)), key=len, default="")
    for item in items:
        item["here"] = roots.get(here) is item and (here != "/" or path == "/")
    return items


@register.filter
def breakable(text: str) -> SafeString:
    """Escaped text that may break at word boundaries inside an identifier."""
    first, *rest = BREAKS.split(text)
    return format_html("{}{}", first, format_html_join("", "<wbr>{}", ((piece,) for piece in rest)))


@register.simple_tag
def tool_name(tool: Any, link: bool = True, badges: bool = True) -> SafeString:
    """The hero: API muted, endpoint strong, version and state as badges. `tool` is a row, a dict or a plain name."""
    if isinstance(tool, str):
        return _tool(tool, None, bool(link))
    get = tool.get if isinstance(tool, Mapping) else lambda key, default="": getattr(tool, key, default)
    body = _tool(get("name", ""), get("pk", get("id", None)), bool(link))
    if not badges:
        return body
    state = "retired" if get("status", "") == "retired" else "deprecated" if get("deprecated", False) else ""
    version = get("version", "")
    marks = [format_html('<span class="badge">{}</span>', version)] if version else []
    marks += [status(state)] if state else []
    shown = format_html_join("", " {}", ((mark,) for mark in marks))
    return format_html('<span class="tool-line">{}{}</span>', body, shown)


@lru_cache(maxsize=16_384)  # a list shows the same tools again and again
def _tool(name: str, key: int | None, link: bool) -> SafeString:
    api, _, endpoint = name.partition("/")
    body = format_html(
        '<span class="tool-api">{}/</span><wbr><strong class="tool-end">{}</strong>',
        breakable(api),
        breakable(endpoint),
    )
    if not link:
        return format_html('<span class="tool">{}</span>', body)
    href = reverse("catalog:detail", args=[key]) if key else reverse("catalog:named", args=[name])
    return format_html('<a class="tool" href="{}">{}</a>', href, body)


@register.simple_tag
@lru_cache(maxsize=1024, typed=True)
def status(word: str, tone: str = "", label: str = "") -> SafeString:
    """A state by colour, shape and word; `no_rule` and `No rule` are the same one, an unknown word is idle."""
    tone = tone or TONES.get(str(word).lower().replace("_", " "), "idle")
    text = str(label or word).replace("_", " ")
    return format_html('<span class="chip tone-{}">{}{}</span>', tone, icon(f"s-{tone}"), text)


@register.simple_tag
def number(value: int | float | None, of: int | None = None, href: str = "") -> SafeString:
    """A number with its denominator, linked to what it counts."""
    shown = "–" if value is None else f"{value:,}"
    tail = format_html(' <span class="of">of {}</span>', f"{of:,}") if of is not None else ""
    body = format_html("<b>{}</b>{}", shown, tail)
    if href:
        return format_html('<a class="num" href="{}">{}</a>', href, body)
    return format_html('<span class="num">{}</span>', body)


@register.simple_tag
def share(
    value: float | None, low: float | None = None, high: float | None = None, n: int | None = None
) -> SafeString:
    """A metric with its confidence interval and n: 0.71 [0.62, 0.79] n = 85."""
    return _measured("{:.2f}", "", value, low, high, n)


@register.simple_tag
def percent(
    value: float | None, low: float | None = None, high: float | None = None, n: int | None = None
) -> SafeString:
    """The same in per cent, for small shares: 1.2 % [0.8, 1.9] n = 85."""
    value, low, high = (None if part is None else 100 * part for part in (value, low, high))
    return _measured("{:.1f}", " %", value, low, high, n)


def _measured(
    shape: str, unit: str, value: float | None, low: float | None, high: float | None, n: int | None
) -> SafeString:
    if value is None:
        return format_html('<span class="num muted">{}</span>', "–")
    parts = [format_html("<b>{}</b>{}", shape.format(value), unit)]
    if low is not None and high is not None:
        parts.append(format_html('<span class="ci">[{}, {}]</span>', shape.format(low), shape.format(high)))
    if n is not None:
        parts.append(format_html('<span class="of">n = {}</span>', f"{n:,}"))
    return format_html(
        '<span class="num">{}</span>', format_html_join(" ", "{}", ((part,) for part in parts))
    )


@register.simple_tag
def bar(value: float, total: float = 1.0, tone: str = "accent", label: str = "") -> SafeString:
    width = 100 * min(1.0, max(0.0, value / total)) if total else 0.0
    return format_html(
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="bar-track" width="100" height="6"></rect>'
        '<rect class="fill-{}" width="{}" height="6"></rect></svg>',
        label or f"{width:.0f} %",
        tone,
        f"{width:.2f}",
    )


@register.inclusion_tag("_stacked_bar.html")
def stacked_bar(parts: Iterable[Mapping[str, Any]], label: str = "") -> dict[str, Any]:
    """A bar of counts with its legend in words. parts: {"label", "count", "tone", "href"?}."""
    rows = [dict(part) for part in parts]
    total = sum(row["count"] for row in rows)
    start = 0.0
    for row in rows:
        row["x"], row["width"] = round(start, 3), round(100 * row["count"] / total, 3) if total else 0.0
        start += row["width"]
    return {"parts": rows, "total": total, "label": label}


@register.simple_tag
def chart_rows(table: Iterable[tuple[str, float, float]]) -> SafeString:
    """The points of a trace_site.lib.charts.LineChart as rows of its table; hundreds, so in one go."""
    rows = (
        (name, f"{x:.2f}".removesuffix(".00"), f"{y:.6f}".removesuffix(".000000")) for name, x, y in table
    )
    return format_html_join("", '<tr><td>{}</td><td class="n">{}</td><td class="n">{}</td></tr>', rows)


@register.inclusion_tag("_dot_chart.html")
def dot_chart(chart: Any, table: bool = True) -> dict[str, Any]:
    """A trace_site.lib.charts.DotChart; without its table where a fuller one stands beside it."""
    return {"chart": chart, "table": table}


@register.inclusion_tag("_empty.html")
def empty_state(
    title: str, text: str = "", href: str = "", action: str = "", symbol: str = "s-wait"
) -> dict[str, Any]:
    """What is missing and what to do next."""
    return {"title": title, "text": text, "href": href, "action": action, "symbol": symbol}


@register.inclusion_tag("jobs/_card.html", takes_context=True)
def job_card(context: template.Context, job: Job) -> dict[str, Any]:
    """A job's progress; it polls itself while the job is active."""
    return {"job": job, "request": context.get("request"), "roles": context.get("roles", frozenset())}


@register.inclusion_tag("_pager.html", takes_context=True)
def pager(context: template.Context, page: Any, last: str = "") -> dict[str, Any]:
    """Next and first links of a keyset page (trace_site.paging.Page); last: the key of the last one."""
    request: HttpRequest = context["request"]
    query = request.GET.copy()
    query.pop("after", None)
    first = query.urlencode()
    query["after"] = page.next_key or ""
    following = query.urlencode()
    query["after"] = last
    return {
        "page": page,
        "first": first,
        "next": following,
        "last": query.urlencode() if last and page.next_key else "",
        "path": request.path,
        "is_first": not page.after,
    }


def _marked(parts: Sequence[Part]) -> SafeString:
    return format_html_join(
        "", "{}", ((format_html("<mark>{}</mark>", p.text) if p.differs else p.text,) for p in parts)
    )


LEAD = 40  # characters that an excerpt keeps before the first difference


@register.simple_tag
@lru_cache(maxsize=1024)
def differing(text: str, against: str, excerpt: bool = False) -> SafeString:
    """`text` with the words that `against` lacks marked; an excerpt begins shortly before the first of them."""
    parts = word_diff(text, against)[0]
    if excerpt and not any(part.differs for part in parts):
        return conditional_escape("says nothing that the first does not")
    if excerpt and not parts[0].differs and len(parts[0].text) > LEAD:
        parts[0] = Part(f"… {parts[0].text[-LEAD:].partition(' ')[2]}", False)
    return _marked(parts)


@register.inclusion_tag("_diff.html")
def diff_pair(old: str, new: str, old_label: str = "before", new_label: str = "after") -> dict[str, Any]:
    """Two texts side by side, differing words marked in both."""
    left, right = word_diff(old, new)
    return {"old": _marked(left), "new": _marked(right), "old_label": old_label, "new_label": new_label}


@register.simple_tag
def name_marks(text: str, names: Iterable[str], code: str = "") -> SafeString:
    """Text in which tool names are links and the rule's code is marked; the longest name wins."""
    known = sorted({name for name in names if name}, key=len, reverse=True)
    words = [re.escape(word) for word in ([*known, code] if code else known)]
    if not words:
        return conditional_escape(text)
    pieces = re.split(rf"(?<!\w)({'|'.join(words)})(?!\w)", text)
    marked = [
        format_html('<mark class="rule-mark">{}</mark>', piece)
        if code and piece == code
        else tool_name(piece)
        if piece in known
        else piece
        for piece in pieces
    ]
    return format_html_join("", "{}", ((piece,) for piece in marked))


@register.filter
def get(mapping: Mapping[Any, Any], key: Any) -> Any:
    """mapping[key] in a template, or None."""
    return mapping.get(key)


@register.filter
def spaced(name: str) -> str:
    """per_rule -> per rule."""
    return str(name).replace("_", " ")


@register.inclusion_tag("audit/_fields.html")
def changed_fields(line: Any) -> dict[str, Any]:
    """The fields of a row before and after, differing words marked in both."""
    before, after = line.before or {}, line.after or {}
    both = line.action == "UPDATE"
    fields = []
    for name in {**before, **after}:
        old, new = (readable(side[name]) if name in side else "" for side in (before, after))
        if both and len(old) + len(new) < LONGEST_DIFF:
            old, new = map(_marked, word_diff(old, new))
        fields.append({"name": name, "old": old, "new": new})
    return {"fields": fields, "line": line, "both": both}


@register.filter
def points(share: float, form: str = "signed") -> str:
    """A difference of shares in points of a percentage: -0.036 -> −3.6; `plain` without a sign for gains, `words`
    without a needless zero."""
    shown = f"{100 * share:+.1f}" if form == "signed" else f"{100 * share:.1f}"
    return (shown.removesuffix(".0") if form == "words" else shown).replace("-", "−")


@register.filter
def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign, whichever it is: -0.055 -> −0.06."""
    return f"{value:+.{digits}f}".replace("-", "−")


@register.filter
def duration(seconds: float | None) -> str:
    """75 -> 1 min 15 s."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


# Every state word of the product and its tone: a tone is a colour and a shape, the word is always written out.

WORDS = {
    "good": "on, done, ready, approved, approve, published, resolved, taught, in champion, champion, pass, ok, "
    "covered, applied, delivered, reliable, better, right, told apart",
    "run": "running, being written, scheduled, challenger, edit, edit and approve",
    "wait": "queued, pending, waiting, to review, draft, in review, new, previous, cannot tell",
    "warn": "warning, deprecated, stale, changed, judged out, touched, paused, tentative, named only, named",
    "bad": "failed, fail, blocked, quarantined, rejected, reject, error, no rule, uncovered, filtered, unreliable, "
    "worse, wrong, stopped, not named",
    "idle": "off, as before, cancelled, retired, dropped, dismissed, removed, unchanged, undo, not measured",
    "info": "active, added, info, offline, recorded",
}
TONES = {word: tone for tone, words in WORDS.items() for word in words.split(", ")}
