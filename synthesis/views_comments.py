"""Comments on samples: the fragment that the sample page and the review screen load, and all of them as a list."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_http_methods

from synthesis.comments import LONGEST, comment_add
from synthesis.models import Sample
from synthesis.selectors_comments import is_blind, said, visible_to
from trace_site.paging import keyset

MOST = 200


@require_http_methods(["GET", "POST"])
def sample_comments(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what is said about one sample; POST adds to it. What a reader must not see yet is left out, whatever
    the address asks.
    """
    sample = get_object_or_404(Sample.objects.defer("trace"), pk=pk)
    if request.method == "POST":
        comment_add(sample=sample, author=request.user, text=request.POST.get("text", ""))
    newest = list(visible_to(request.user).filter(sample=sample).order_by("-id")[:MOST])
    context: dict[str, Any] = {
        "sample": sample,
        "comments": said(newest[::-1]),
        "blind": is_blind(request.user, sample),
        "longest": LONGEST,
    }
    return render(request, "synthesis/_comments.html", context)


@require_GET
def comment_list(request: HttpRequest) -> HttpResponse:
    """Everything said lately, newest first, with the way to the sample."""
    rows = visible_to(request.user).select_related("author", "sample").defer("sample__trace")
    page = keyset(rows, request.GET.get("after", ""), newest=True)
    return render(request, "synthesis/comments.html", {"page": page, "comments": said(page.rows)})
