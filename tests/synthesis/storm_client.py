"""One reviewer of the storm: a browser without scripts that signs in, reads the queue, and behaves as people do.

They click twice, open an item in two tabs, come back after their session has ended, skip, and take decisions back.
What was not answered because the server died is sent again, as it was.
"""

import html
import random
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from http.cookiejar import CookieJar
from typing import Any

PLAYS = {"once": 45, "double": 20, "two_verdicts": 12, "two_items": 8, "expired": 8, "undo": 4, "skip": 3}
VERDICTS = {"approve": 70, "reject": 25, "edit": 5}
GIVE_UP_S = 120
ACCEPTED, REFUSED = 302, 409
QUEUE = "/synthesis/review/"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str
    place: str  # where it sends the browser

    @property
    def accepted(self) -> bool:
        return self.status == ACCEPTED and self.place.startswith(QUEUE)


@dataclass(frozen=True, slots=True)
class Page:
    """An item on the screen."""

    sample: int
    fields: dict[str, Any]
    texts: dict[str, Any]


@dataclass(slots=True)
class Seen:
    """What all reviewers met; a name in `wrong` is something that may not happen."""

    answers: Counter[int] = field(default_factory=Counter)
    plays: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    undone: set[int] = field(default_factory=set)  # samples whose decision somebody wanted to take back
    resets: int = 0
    accepted: list[tuple[str, int, str]] = field(default_factory=list)  # (who, sample, verdict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Unanswered(Exception):
    """The connection broke; whether the request had its effect is not known."""


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


class Reviewer:
    def __init__(self, url: str, name: str, seed: int, seen: Seen, expire: Callable[[str], None]) -> None:
        self.url, self.name, self.seen, self.expire = url, name, seen, expire
        self.draw = random.Random(seed)
        self.jar = CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar), _Stay)

    def work(self, done: threading.Event) -> None:
        self.sign_in()
        while not done.is_set():
            page = self.page(self.followed(QUEUE))
            if page is None:
                time.sleep(0.2)
                continue
            play = self.draw.choices(list(PLAYS), list(PLAYS.values()))[0]
            self.seen.plays[play] += 1
            getattr(self, play)(page)

    # what people do

    def once(self, page: Page) -> None:
        self.check(self.decide(page, self.verdict()), "once")

    def double(self, page: Page) -> None:
        verdict = self.verdict()
        for answer in self.together([(page, verdict), (page, verdict)]):
            self.check(answer, "double")

    def two_verdicts(self, page: Page) -> None:
        answers = self.together([(page, "approve"), (page, "reject")])
        if sorted(answer.status for answer in answers) != [ACCEPTED, REFUSED]:
            self.wrong(f"two verdicts gave {sorted(answer.status for answer in answers)}")

    def two_items(self, page: Page) -> None:
        item = page.fields["item"]
        ahead = self.send(f"{QUEUE}next/", {"besides": item}, script=True)
        other = self.page(ahead)
        wishes = [(one, self.verdict()) for one in (page, other) if one is not None]
        for answer in self.together(wishes):
            self.check(answer, "two items")

    def expired(self, page: Page) -> None:
        self.expire(self.cookie("sessionid"))
        verdict = self.verdict()
        answer = self.decide(page, verdict)
        if answer.status != 401:
            self.wrong(f"a form without a session gave {answer.status}")
        self.sign_in()
        self.check(self.decide(page, verdict), "expired")

    def undo(self, page: Page) -> None:
        self.check(self.decide(page, self.verdict()), "undo")
        self.seen.undone.add(page.sample)
        try:
            place = self.send(f"{QUEUE}undo/", {}, again=False).place
        except Unanswered:
            return  # sent again it might take back one more
        if place and (reopened := self.page(self.followed(place))):
            self.check(self.decide(reopened, self.verdict()), "after undo")

    def skip(self, page: Page) -> None:
        self.send(f"{QUEUE}{page.sample}/skip/", {})

    # how they do it

    def verdict(self) -> str:
        return self.draw.choices(list(VERDICTS), list(VERDICTS.values()))[0]

    def decide(self, page: Page, verdict: str) -> Answer:
        data = {**page.fields}
        if verdict == "reject":
            data |= {"reason": "unnatural", "follow_up": "drop"}
        if verdict == "edit":
            data |= {**page.texts, "query": f"{page.texts['query']} please"}
        answer = self.send(f"{QUEUE}{page.sample}/{verdict}/", data)
        with self.seen.lock:
            if answer.accepted:
                self.seen.accepted.append((self.name, page.sample, verdict))
        if answer.status == REFUSED and "Nothing was changed." not in answer.text:
            self.wrong("a conflict was not shown")
        return answer

    def together(self, wishes: Iterable[tuple[Page, str]]) -> list[Answer]:
        """At once, as from two tabs."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda wish: self.decide(*wish), wishes))

    def check(self, answer: Answer, play: str) -> None:
        """A second reading may be lost to the undo of the first: both are then explained and open again."""
        sample = re.search(r'role="alert">(?:\s*<[^>]+>)*sample (\d+)', answer.text)
        if answer.status == REFUSED and sample and int(sample[1]) in self.seen.undone:
            with self.seen.lock:
                self.seen.plays["lost to an undo"] += 1
            return
        if not answer.accepted:
            said = re.search(r'role="alert">(.{0,200})', answer.text)
            self.wrong(f"{play}: {answer.status} {said[1] if said else ''}")

    def wrong(self, what: str) -> None:
        with self.seen.lock:
            self.seen.wrong[what] += 1

    def page(self, answer: Answer) -> Page | None:
        """What a page shows to decide about; None: nothing."""
        text = answer.text
        shown = re.search(r'data-sample="(\d+)" data-item="(\d+)" data-claim="([0-9a-f-]+)"', text)
        seen = re.search(r'name="seen" value="(\w+)"', text)
        if shown is None or seen is None:
            return None
        query, trace = (
            html.unescape(found[1]) if (found := re.search(pattern, text, re.S)) else ""
            for pattern in (
                r'<textarea id="edit-query"[^>]*>(.*?)</textarea>',
                r'<textarea id="edit-trace"[^>]*>(.*?)</textarea>',
            )
        )
        answers = re.findall(r'name="answer" value="([^"]*)" checked', text)
        fields = {"claim": shown[3], "seen": seen[1], "item": shown[2], "seconds": "4"}
        return Page(int(shown[1]), fields, {"query": query, "trace": trace, "answer": answers})

    def sign_in(self) -> None:
        self.send("/login/")
        answer = self.send("/login/", {"username": self.name, "password": "pass"})
        if answer.status != ACCEPTED:
            self.wrong(f"sign-in gave {answer.status}")

    def followed(self, path: str) -> Answer:
        for _ in range(4):
            answer = self.send(path)
            if not answer.place:
                return answer
            path = answer.place
        return answer

    def cookie(self, name: str) -> str:
        return next((cookie.value or "" for cookie in self.jar if cookie.name == name), "")

    def send(
        self, path: str, data: dict[str, Any] | None = None, *, again: bool = True, script: bool = False
    ) -> Answer:
        """Ask until there is an answer. Raises Unanswered where nothing may be sent again."""
        ended = time.monotonic() + GIVE_UP_S
        while True:
            try:
                return self.exchange(path, data, script)
            except (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError) as error:
                with self.seen.lock:
                    self.seen.resets += 1
                if not again or time.monotonic() > ended:
                    raise Unanswered(path) from error
                time.sleep(0.2)

    def exchange(self, path: str, data: dict[str, Any] | None, script: bool) -> Answer:
        headers = {"HX-Request": "true"} if script else {}
        body = None
        if data is not None:
            token = {"csrfmiddlewaretoken": self.cookie("csrftoken")}
            body = urllib.parse.urlencode({**token, **data}, doseq=True).encode()
        request = urllib.request.Request(f"{self.url}{path}", body, headers)
        try:
            with self.opener.open(request, timeout=60) as response:
                answer = Answer(response.status, response.read().decode(), "")
        except urllib.error.HTTPError as error:
            answer = Answer(error.code, error.read().decode(), error.headers.get("Location", ""))
        with self.seen.lock:
            self.seen.answers[answer.status] += 1
        if answer.status >= 500 or answer.status in (400, 403, 404):
            self.wrong(f"{answer.status} from {re.sub(r'[0-9]+', 'N', path)}")
        return answer
