"""Reviewers at the queue in a real Chromium: each key press is counted."""

from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from synthesis.models import ReviewItem, Sample

SETTLED_MS = 140  # keys rest for 120 ms after an item has appeared
# what breaks a narrow page seldom breaks a wide one alone
widths = pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
PATIENCE_MS = 60_000  # the first page of a cold browser on a busy machine took more than ten seconds


class Reviewer:
    """One signed-in person at the queue."""

    def __init__(self, page: Any, site: str, user: Any) -> None:
        self.page, self.site, self.user, self.presses = page, site, user, 0

    def open(self, path: str = "/synthesis/review/") -> "Reviewer":
        self.page.goto(f"{self.site}{path}")
        self.page.wait_for_selector("#item")
        self.page.wait_for_timeout(SETTLED_MS)
        return self

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.presses += 1

    def shown(self) -> int:
        """The sample on the screen that waits for this person's decision; 0: none."""
        return int(self.page.get_attribute("#item", "data-sample") or 0)

    def on(self, sample: Sample | int) -> None:
        """Wait until the sample is shown and the keys listen."""
        pk = sample if isinstance(sample, int) else sample.pk
        self.page.wait_for_selector(f'#review:not([aria-busy]) #item[data-sample="{pk}"]')
        self.page.wait_for_timeout(SETTLED_MS)

    def has_left(self, sample: int) -> None:
        """Wait until something else than the sample is on the screen and the keys listen."""
        self.page.wait_for_selector(f'#review:not([aria-busy]) #item:not([data-sample="{sample}"])')
        self.page.wait_for_timeout(SETTLED_MS)

    def fetched_ahead(self) -> int:
        """Wait for the item behind the one on the screen; its sample."""
        for _ in range(200):
            if sample := self.page.evaluate("queue.ahead.length && queue.ahead[0].dataset.sample"):
                return int(sample)
            self.page.wait_for_timeout(25)
        raise AssertionError("nothing was fetched ahead")

    def problem(self) -> str:
        self.page.wait_for_selector("#problem:not([hidden])")
        return str(self.page.inner_text("#problem"))

    def close(self) -> None:
        """Leave the site, and wait for what a leaving page still sends: the tables are emptied next."""
        self.page.goto("about:blank")
        for _ in range(40):
            if not ReviewItem.objects.filter(claimed_by=self.user).exists():
                break
            self.page.wait_for_timeout(50)
        self.page.context.close()


def signed_in(browser: Any, site: str, user: Any, **context: Any) -> Reviewer:
    signed = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
    signed.add_cookies([session_cookie(user, site)])
    page = signed.new_page()
    page.set_default_timeout(PATIENCE_MS)
    return Reviewer(page, site, user)


def session_cookie(user: Any, site: str) -> Any:
    """Of a session of their own: a browser that has it need not show the sign-in page first."""
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value, "url": site}


def sign_in(page: Any, user: Any) -> None:
    page.fill("[name=username]", user.username)
    page.fill("[name=password]", "pass")
    page.press("[name=password]", "Enter")
    page.wait_for_url(lambda url: "/login/" not in url)
