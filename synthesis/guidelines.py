"""How to review: a text and examples for all samples, a domain, a style, or a style of a domain. Every save is a new
version; old ones stay as they were.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction

from catalog.models import Domain
from synthesis.core.rejections import REASONS
from synthesis.models import Decision, Guideline, Sample
from synthesis.selectors_guidelines import newest_of
from trace_site import audit
from trace_site.lib.errors import TraceError

LONGEST_TEXT = 20_000
MOST_EXAMPLES = 30
LONGEST = {"query": 2_000, "trace": 10_000, "why": 500}
VERDICTS = ("approve", "reject")


@transaction.atomic
def guideline_save(
    *,
    domain: str,
    style: str,
    text: str,
    examples: Iterable[Mapping[str, Any]] = (),
    author: Any,
    base: int,
) -> Guideline:
    """A new version. domain, style: empty for all; base: the number of the version it was written from, 0 for none.

    Raises TraceError `bad_input`, `edited_meanwhile`; nothing is written when nothing changed.
    """
    _check_place(domain, style)
    text, kept = _text(text), [_example(number, example) for number, example in enumerate(examples, start=1)]
    if not text and not kept:
        raise TraceError("a guideline needs a text or an example.", code="bad_input", where="text")
    if len(kept) > MOST_EXAMPLES:
        raise TraceError(f"{len(kept)} are too many.", code="bad_input", where="examples", hint="At most 30.")
    last = newest_of(domain, style)
    if (last.number if last else 0) != base:
        raise _meanwhile(last)
    if last and (last.text, last.examples) == (text, kept):
        return last
    return _write(domain, style, base + 1, {"text": text, "examples": kept}, author)


@transaction.atomic
def example_copy(*, sample: Sample, actor: Any) -> Guideline:
    """Add a decided sample to the guideline of its domain and style, as a new version; the first if there is none.

    Raises TraceError `bad_state` for a sample that is not decided.
    """
    verdict = {Sample.Human.APPROVED: "approve", Sample.Human.REJECTED: "reject"}.get(
        Sample.Human(sample.human)
    )
    if verdict is None:
        raise TraceError("it is not decided yet.", code="bad_state", where=f"sample {sample.pk}")
    last = newest_of(sample.domain_id, sample.style)
    examples: list[dict[str, Any]] = list(last.examples) if last else []
    if last and any(example.get("sample") == sample.pk for example in examples):
        return last
    examples.append(
        {
            "verdict": verdict,
            "query": sample.query[: LONGEST["query"]],
            "trace": sample.trace[: LONGEST["trace"]],
            "answer": sample.answer,
            "why": _why(sample),
            "sample": sample.pk,
        }
    )
    return guideline_save(
        domain=sample.domain_id,
        style=sample.style,
        text=last.text if last else "",
        examples=examples,
        author=actor,
        base=last.number if last else 0,
    )


def _why(sample: Sample) -> str:
    """What the last word on the sample gave as its reason."""
    last = (
        Decision.objects.filter(sample=sample).exclude(verdict=Decision.Verdict.UNDO).order_by("-pk").first()
    )
    if last is None:
        return ""
    said = [REASONS.get(last.reason, last.reason), last.note]
    return ": ".join(part for part in said if part)[: LONGEST["why"]]


def _write(domain: str, style: str, number: int, fields: dict[str, Any], author: Any) -> Guideline:
    try:
        with transaction.atomic():
            row = Guideline.objects.create(
                domain_id=domain or None, style=style, number=number, author=author, **fields
            )
    except IntegrityError as error:  # somebody saved in the same moment
        raise _meanwhile(newest_of(domain, style)) from error
    audit.record(actor=author, action="guideline.saved", obj=row, detail={"number": number})
    return row


def _meanwhile(last: Guideline | None) -> TraceError:
    who = f"{last.author} saved version {last.number}" if last else "it was taken away"
    return TraceError(
        f"{who} meanwhile.",
        code="edited_meanwhile",
        where="guideline",
        hint="What you typed is still here: compare, then save again.",
        extra={"current": last.number if last else 0},
    )


def _check_place(domain: str, style: str) -> None:
    if style and style not in Sample.Style.values:
        raise TraceError(f"there is no style {style!r}.", code="bad_input", where="style")
    if domain and not Domain.objects.filter(pk=domain).exists():
        raise TraceError(f"there is no domain {domain!r}.", code="bad_input", where="domain")


def _text(text: str) -> str:
    text = text.replace("\r\n", "\n").strip()
    if len(text) > LONGEST_TEXT:
        raise TraceError(
            f"it has {len(text):,} characters.", code="bad_input", where="text", hint="At most 20,000."
        )
    return text


def _example(number: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """One example as it is stored: {verdict, query, trace, answer, why, sample?}."""
    where = f"example {number}"
    if given.get("verdict") not in VERDICTS:
        raise TraceError("say whether it is approved or rejected.", code="bad_input", where=where)
    kept: dict[str, Any] = {"verdict": given["verdict"]}
    for name, longest in LONGEST.items():
        kept[name] = str(given.get(name) or "").replace("\r\n", "\n").strip()
        if len(kept[name]) > longest:
            hint = f"At most {longest:,} characters."
            raise TraceError(f"its {name} is too long.", code="bad_input", where=where, hint=hint)
    if not kept["query"]:
        raise TraceError("an example needs a query.", code="bad_input", where=where)
    kept["answer"] = [str(name).strip()[:300] for name in given.get("answer") or [] if str(name).strip()][:20]
    if isinstance(given.get("sample"), int):
        kept["sample"] = given["sample"]
    return kept
