"""Pages that follow a job: what polls, and what happens when the job ends."""

from django.http import HttpResponse

from trace_site.jobs import Job


def refresh_at_end(response: HttpResponse, job: Job | None) -> HttpResponse:
    """Only a page whose job was active polls, so an ended job means that its buttons and links changed as well."""
    if job is None or not job.is_active:
        response["HX-Refresh"] = "true"
    return response
