"""Snapshots: the list, the builder with live counts, one frozen snapshot, its files, its rebuild, two side by side."""

import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.models import Domain
from synthesis.core.snapshot import DERIVED_FILES, FILES, WHY_LEFT_OUT
from synthesis.datasets.build import preview, snapshot_start
from synthesis.datasets.diff import SHOWS, SnapshotPair
from synthesis.datasets.files import rebuild_start, snapshot_dir
from synthesis.models import Sample, Snapshot, SynthesisRun
from synthesis.samples.forms import domain_choices
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.store import INDEX
from trace_site.paging import keyset, numbers_of

LIMITS = {"rule": 1_000_000, "rrb": 1_000_000, "share": 100}


class SnapshotForm(forms.Form):
    """Composition, and a budget per domain."""

    strategy = forms.ChoiceField(choices=[("append", "append"), ("replace", "replace")], initial="append")
    per_rule = forms.IntegerField(initial=12, min_value=0, max_value=10_000)
    branches = forms.MultipleChoiceField(
        choices=SynthesisRun.Branch.choices, initial=["rrb", "rule"], widget=forms.CheckboxSelectMultiple
    )
    rrb = forms.IntegerField(min_value=0, max_value=1_000_000, required=False)
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    seed = forms.IntegerField(initial=0, min_value=0, max_value=2**53)
    strict = forms.BooleanField(required=False)
    licence = forms.CharField(required=False, max_length=100)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._domains = list(Domain.objects.values_list("slug", flat=True))
        for slug in self._domains:
            for name, most in LIMITS.items():
                field = forms.IntegerField(
                    required=False, min_value=0, max_value=most, label=f"{name} of {slug}"
                )
                field.widget.attrs |= {"aria-label": field.label, "placeholder": "all"}
                self.fields[f"{name}_of_{slug}"] = field

    def budget_rows(self) -> list[dict[str, Any]]:
        return [
            {"slug": slug, "fields": [self[f"{name}_of_{slug}"] for name in LIMITS]} for slug in self._domains
        ]

    @property
    def limited(self) -> bool:
        """Whether a domain has a budget as the form stands."""
        return any(field.value() not in (None, "") for row in self.budget_rows() for field in row["fields"])

    def options(self) -> dict[str, Any]:
        """What `snapshot_start` and `preview` take; of a valid form."""
        given = dict(self.cleaned_data)
        budgets: dict[str, dict[str, int]] = {}
        for slug in self._domains:
            for name in LIMITS:
                if (number := given.pop(f"{name}_of_{slug}")) is not None:
                    budgets.setdefault(slug, {})[name] = number
        return {**given, "budgets": budgets}


def snapshots() -> QuerySet[Snapshot]:
    """Without the manifests, which hold every contaminated and removed sample; members are counted by the build."""
    return Snapshot.objects.select_related("created_by").defer("manifest", "parts")


@require_GET
def snapshot_list(request: HttpRequest) -> HttpResponse:
    page = keyset(snapshots(), request.GET.get("after", ""), newest=True)
    ready = Sample.objects.filter(human=Sample.Human.APPROVED, machine=Sample.Machine.READY)
    approved = bool(page.rows) or ready.exists()
    return render(request, "synthesis/snapshot_list.html", {"page": page, "approved": approved})


@require_http_methods(["GET", "POST"])
def snapshot_create(request: HttpRequest) -> HttpResponse:
    form = SnapshotForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            job = snapshot_start(**form.options(), actor=request.user)
        except TraceError as error:
            form.add_error(None, str(error))
        else:
            return redirect("jobs:detail", job.pk)
    return render(request, "synthesis/snapshot_form.html", {"form": form}, status=422 if form.errors else 200)


@require_GET
def snapshot_preview(request: HttpRequest) -> HttpResponse:
    """Fragment: what the form as it stands would freeze."""
    form = SnapshotForm(request.GET)
    if not form.is_valid():
        return render(request, "synthesis/_snapshot_preview.html", {"errors": form.errors})
    try:
        found = preview(**{name: value for name, value in form.options().items() if name != "licence"})
    except TraceError as error:
        return render(request, "synthesis/_snapshot_preview.html", {"error": error})
    return render(request, "synthesis/_snapshot_preview.html", {"preview": found, "why": WHY_LEFT_OUT})


@require_GET
def snapshot_detail(request: HttpRequest, pk: int) -> HttpResponse:
    snapshot = get_object_or_404(Snapshot.objects.select_related("created_by"), pk=pk)
    keys = ("branch", "domain_id", "rule_version__rule__code", "rule_version__number", "style", "tier")
    offline = Count("id", filter=Q(writer__startswith="offline"))
    members = Sample.objects.filter(memberships__snapshot=snapshot).values(*keys)
    rows = list(members.annotate(count=Count("id"), offline=offline).order_by(*keys))
    totals = Counter[str]()
    for row in rows:
        totals[row["branch"]] += row["count"]
    labels, tones = dict(SynthesisRun.Branch.choices), {"rrb": "accent", "rule": "good", "imported": "warn"}
    context = {
        "snapshot": snapshot,
        "rows": rows,
        "branches": [
            {"label": labels[name], "count": count, "tone": tones[name]} for name, count in totals.items()
        ],
        "manifest": snapshot.manifest,
        "why": WHY_LEFT_OUT,
        "rebuild": Job.objects.filter(kind="snapshot_rebuild", params__snapshot=pk).order_by("-pk").first(),
        "others": snapshots().exclude(pk=pk).order_by("-pk")[:20],
    }
    return render(request, "synthesis/snapshot_detail.html", context)


def card_of(snapshot: Snapshot) -> str:
    """The dataset card; empty for a snapshot that was frozen before there were cards."""
    path = snapshot_dir(snapshot) / "README.md"
    return path.read_text() if path.is_file() else ""


@require_GET
def snapshot_card(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: the dataset card as text; its part for programs is folded away."""
    snapshot = get_object_or_404(Snapshot.objects.defer("manifest"), pk=pk)
    try:
        card = card_of(snapshot)
    except TraceError as error:
        return render(request, "synthesis/_snapshot_card.html", {"error": error, "snapshot": snapshot})
    head, *parts = card.split("---\n", 2)
    front, body = parts if not head and len(parts) == 2 else ("", card)
    context = {"card": body.strip(), "front": front.strip(), "snapshot": snapshot}
    return render(request, "synthesis/_snapshot_card.html", context)


# A snapshot's files: from the store, verified, streamed; the whole folder as one ZIP.

CHUNK = 1 << 16
TYPES = {
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown; charset=utf-8",
    ".json": "application/json",
}
NAMES = (*FILES, *DERIVED_FILES, "manifest.json")
MADE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is made


class _Sink(io.BytesIO):
    """What a ZIP is written to and taken from, block by block; it tells no place, so sizes follow each file's data."""

    def tell(self) -> int:
        raise OSError

    def take(self) -> bytes:
        taken = self.getvalue()
        self.seek(0)
        self.truncate()
        return taken


def zipped(folder: Path, inside: str) -> Iterator[bytes]:
    """The folder as a ZIP under the folder name `inside`, block by block."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.name == INDEX:
                continue
            about = zipfile.ZipInfo(f"{inside}/{path.name}", MADE)
            about.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(about, "w", force_zip64=True) as member:
                for block in blocks(path):
                    member.write(block)
                    yield sink.take()
    yield sink.take()


def blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while block := handle.read(CHUNK):
            yield block


@require_GET
def snapshot_download(request: HttpRequest, pk: int, name: str = "samples.jsonl") -> StreamingHttpResponse:
    return file_response(get_object_or_404(Snapshot.objects.defer("manifest"), pk=pk), name)


def file_response(snapshot: Snapshot, name: str) -> StreamingHttpResponse:
    """A file exactly as it was frozen, from the store, verified. Raises Http404."""
    if name not in NAMES:
        raise Http404
    path = snapshot_dir(snapshot) / name
    if not path.is_file():
        raise Http404
    response = StreamingHttpResponse(blocks(path), content_type=TYPES[path.suffix])
    called = f"snapshot-{snapshot.pk}-{snapshot.hash[:8]}-{name}"
    response["Content-Disposition"] = f'attachment; filename="{called}"'
    response["Content-Length"] = str(path.stat().st_size)
    return response


@require_GET
def snapshot_zip(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """The whole folder; unpacked, `datasets.load_dataset(folder)` reads it."""
    snapshot = get_object_or_404(Snapshot.objects.defer("manifest"), pk=pk)
    name = f"snapshot-{pk}-{snapshot.hash[:8]}"
    found = zipped(snapshot_dir(snapshot), name)
    response = StreamingHttpResponse(found, content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{name}.zip"'
    return response


@require_POST
def snapshot_rebuild(request: HttpRequest, pk: int) -> HttpResponse:
    """Queue the rebuild; the snapshot's page shows how it ended."""
    snapshot = get_object_or_404(Snapshot.objects.defer("manifest"), pk=pk)
    rebuild_start(snapshot=snapshot, actor=request.user)
    messages.success(request, "The folder is written again from the database and compared, file by file.")
    return redirect("synthesis:snapshot", pk)


TITLES = {
    "changed": "Changed in place",
    "added": "Added",
    "removed": "Removed",
    "rules": "Rules",
    "tools": "Tools",
}


@require_GET
def snapshot_diff(request: HttpRequest) -> HttpResponse:
    """?a=&b=&show=&after=; without two snapshots, a form to choose them."""
    chosen = numbers_of(request.GET.get(side, "") for side in ("a", "b"))
    every = list(snapshots().order_by("-pk")[:100])
    if len(chosen) < 2:
        return render(request, "synthesis/snapshot_diff.html", {"every": every})
    a, b = (get_object_or_404(Snapshot, pk=key) for key in chosen)
    pair = SnapshotPair(a, b)
    counts = pair.counts()
    show = request.GET.get("show", "")
    if show not in SHOWS:
        show = next((name for name in SHOWS if counts[name]), SHOWS[0])
    context = {
        "every": every,
        "pair": pair,
        "tabs": [(name, TITLES[name], counts[name]) for name in SHOWS],
        "show": show,
        "page": pair.page(show, request.GET.get("after", "")),
        "options": pair.options(),
        "totals": pair.totals(),
        "equal": a.hash == b.hash,
    }
    return render(request, "synthesis/snapshot_diff.html", context)
