"""Pages that take rules in and out as files: an upload becomes one change request, a download follows the filters."""

from dataclasses import asdict
from typing import Any

from django import forms
from django.contrib import messages
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.imports.previews import Upload, read_ticket, upload_kept
from rules.exchange.services import FilePreview, Format, as_text, file_preview, file_request, rules_export
from rules.selectors import RuleFilter, rule_ids
from rules.services import recheck_missing
from trace_site.lib.errors import TraceError, status_of
from trace_site.limits import RULES_FILE, file_at_most

SALT = "rules.upload.2"
SHOWN = 100  # rows of a preview that are written out
CONTENT_TYPES = {"json": "application/json; charset=utf-8", "csv": "text/csv; charset=utf-8"}


class RulesFileForm(forms.Form):
    file = forms.FileField(
        label="File",
        help_text="JSON or CSV; at most 5 MB and 5,000 rules.",
        validators=[file_at_most(RULES_FILE, "Split it, or have it imported with manage.py rules_import.")],
    )


@require_http_methods(["GET", "POST"])
def rule_import(request: HttpRequest) -> HttpResponse:
    """Choose a file; one that can be read is answered with what it would change."""
    sent = request.method == "POST"
    form = RulesFileForm(request.POST, request.FILES) if sent else RulesFileForm()
    context: dict[str, Any] = {"form": form}
    if sent and form.is_valid():
        try:
            with upload_kept(form.cleaned_data["file"], user=request.user, domain="", fmt="rules") as upload:
                return _preview(request, upload)
        except TraceError as error:
            context["problem"] = error
            return render(request, "rules/import_form.html", context, status=status_of(error.code))
    return render(request, "rules/import_form.html", context, status=400 if sent else 200)


def _preview(request: HttpRequest, upload: Upload) -> HttpResponse:
    preview = _read(upload)
    counts = preview.counts()
    ticket = {"upload": asdict(upload), "shown": _promise(preview)}
    context = {
        "upload": upload,
        "preview": preview,
        "counts": counts,
        "figures": [
            (word.capitalize(), counts[word]) for word in ("added", "changed", "unpublished", "unchanged")
        ],
        "total": counts["added"] + counts["changed"],
        "changed": preview.of("changed")[:SHOWN],
        "added": preview.of("added")[:SHOWN],
        "drafts": preview.of("draft")[:SHOWN],
        "ticket": signing.dumps(ticket, salt=SALT),
    }
    return render(request, "rules/import_preview.html", context)


def _read(upload: Upload) -> FilePreview:
    """Rules with a mistake are left out and listed; people go on without them or mend the file."""
    return file_preview(data=upload.path.read_bytes(), filename=upload.filename, skip_bad_rows=True)


def _promise(preview: FilePreview) -> dict[str, int]:
    """What the preview showed; the request must hold exactly that."""
    return {key: value for key, value in preview.counts().items() if isinstance(value, int)}


@require_POST
def rule_import_request(request: HttpRequest) -> HttpResponse:
    ticket = read_ticket(request.POST.get("ticket", ""), SALT, request.user)
    upload = Upload(**ticket["upload"])
    preview = _read(upload)
    if _promise(preview) != ticket["shown"]:
        upload.path.unlink(missing_ok=True)
        raise TraceError(
            "the catalog or the rules changed since the preview.",
            code="stale_preview",
            hint="Choose the file again.",
        )
    made = file_request(
        preview=preview,
        actor=request.user,
        title=request.POST.get("title", "").strip(),
        description=request.POST.get("description", ""),
        drafts=bool(request.POST.get("drafts")),
    )
    upload.path.unlink(missing_ok=True)
    messages.success(request, "The changes of the file are a draft now. Look through them, then submit it.")
    return redirect("rules:request", made.pk)


@require_GET
def rule_export(request: HttpRequest, fmt: Format) -> HttpResponse:
    return download(RuleFilter.read(request.GET), fmt)


def download(chosen: RuleFilter, fmt: Format) -> HttpResponse:
    """The chosen rules as an attachment; the page and the API send the same bytes."""
    recheck_missing()
    text = as_text(rules_export(rules=rule_ids(chosen) if chosen.narrows else None), fmt)
    response = HttpResponse(text, content_type=CONTENT_TYPES[fmt])
    response["Content-Disposition"] = f'attachment; filename="rules.{fmt}"'
    return response
