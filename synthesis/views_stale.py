"""The fragment of a sample's page that says whether it is as it would be written today, and why not."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from synthesis.models import Sample
from synthesis.selectors_standing import replacement
from synthesis.stale_diffs import shown
from synthesis.staleness import stale_map


@require_GET
def sample_stale(request: HttpRequest, pk: int) -> HttpResponse:
    sample = get_object_or_404(Sample.objects.select_related("rule_version"), pk=pk)
    if sample.machine == Sample.Machine.DROPPED or sample.human == Sample.Human.REJECTED:
        return HttpResponse()  # nobody learns from it, current or not
    found = stale_map(Sample.objects.filter(pk=pk))[pk]
    context = {
        "sample": sample,
        "level": found.level,
        "shown": shown(sample, found.reasons),
        "newer": replacement(sample),
        "gone": any(reason.kind == "gone" for reason in found.reasons),
    }
    return render(request, "synthesis/_stale.html", context)
