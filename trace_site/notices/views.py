"""Notices: the bell's number, the list, opening one, and which kinds come elsewhere too."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from trace_site.notices.services import MAIL, Notice, channels, choose, mark_read, unread
from trace_site.paging import keyset, number_of


@require_GET
def notice_list(request: HttpRequest) -> HttpResponse:
    """What is unread; with ?show=all everything of the last months."""
    everything = request.GET.get("show") == "all"
    rows = Notice.objects.filter(recipient=request.user.pk) if everything else unread(request.user)
    page = keyset(rows.prefetch_related("deliveries"), request.GET.get("after", ""), newest=True)
    return render(request, "notices/notice_list.html", {"page": page, "everything": everything})


@require_GET
def unread_count(request: HttpRequest) -> HttpResponse:
    """The number at the bell, as plain text."""
    return HttpResponse(unread(request.user).count(), content_type="text/plain")


@require_GET
def notice_open(request: HttpRequest, pk: int) -> HttpResponse:
    """To what the notice is about; it counts as read then."""
    notice = get_object_or_404(Notice, pk=pk, recipient=request.user.pk)
    mark_read(Notice.objects.filter(pk=notice.pk))
    return redirect(notice.link)


@require_POST
def notices_read(request: HttpRequest) -> HttpResponse:
    """Mark one (`notice`) or all of one's notices as read."""
    rows = unread(request.user)
    pk = request.POST.get("notice", "")
    if pk:
        rows = rows.filter(pk=number_of(pk))
    count = mark_read(rows)
    if not pk:
        messages.success(request, f"{count} notice{'' if count == 1 else 's'} marked as read.")
    return redirect("notices:list")


@require_POST
def mail_choice(request: HttpRequest) -> HttpResponse:
    channel = request.POST.get("channel", MAIL)
    choose(person=request.user, kinds=request.POST.getlist("kinds"), channel=channel)
    if channel not in channels():
        messages.warning(request, f"Saved. To send, an admin must set {settings.CHANNELS[channel][2]}.")
    else:
        messages.success(request, "Saved; it holds for notices from now on.")
    return redirect("account")


app_name = "notices"
urlpatterns = [
    path("", notice_list, name="list"),
    path("unread/", unread_count, name="unread"),
    path("read/", notices_read, name="read"),
    path("mail/", mail_choice, name="mail"),
    path("<int:pk>/", notice_open, name="open"),
]
