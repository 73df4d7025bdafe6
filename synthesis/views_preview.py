"""Fragment of the rule editor: what the rule as typed would teach."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from rules.forms import RuleForm
from rules.models import Rule
from synthesis.preview import preview
from trace_site.lib.errors import TraceError


@require_POST
def editor_preview(request: HttpRequest) -> HttpResponse:
    """The pool, and three queries of each style; `page` turns to the next three. A refusal is one sentence."""
    form = RuleForm.read(request.POST)
    pk, page = (
        int(text) if text.isdecimal() and len(text) < 9 else 0
        for text in (request.POST.get("rule", ""), request.POST.get("page", ""))
    )
    underspecified = "underspecified" in request.POST
    try:
        found = preview(
            content=form.content(),
            rule=Rule.objects.filter(pk=pk).first() if pk else None,
            code=form.code,
            underspecified=underspecified,
            page=page,
        )
    except TraceError as error:
        return render(request, "synthesis/_editor_preview.html", {"error": error})
    context = {"preview": found, "underspecified": underspecified, "next_page": page + 1}
    return render(request, "synthesis/_editor_preview.html", context)
