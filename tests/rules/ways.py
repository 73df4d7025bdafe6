"""A world of people and requests for the ways to break change control, and the reader of their table."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Permission, User
from django.utils import timezone

from catalog.models import Tool
from rules.changes import drafts
from rules.changes import services as changes_services
from rules.changes.drafts import withdrawal_propose
from rules.models import Approval, ChangeComment, ChangeRequest, Rule, RuleChange, RuleVersion
from rules.services import rule_withdraw
from tests.factories import make_tool
from tests.rules.saving import rule_save
from trace_site.audit.models import AuditEntry

TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."
ROLES = {"erin": ["expert"], "rui": ["expert"], "otto": ["expert"], "ada": ["admin"]}
ROLES |= {"rita": ["reviewer"], "pam": ["product_manager"], "nobody": []}
WORDS = {"LONG": "x" * 5001, "TITLE": "t" * 201, "BLANK": " \n "}


def content(text: str = TEXT, **fields: Any) -> dict[str, Any]:
    return {"target": "A/New", "confusables": ["A/Old"], "text": text, "clauses": [], "tests": [], **fields}


class World:
    """Erin writes; rui, otto and ada (an admin who may bypass) decide; rita, pam and nobody only read.

    Each step makes a request or does something beside one, and returns the request.
    """

    def __init__(self, user_with: Callable[..., User]) -> None:
        for name, roles in ROLES.items():
            user_with(*roles, username=name)
        self["ada"].user_permissions.add(Permission.objects.get(codename="bypass_review"))
        for name in ("A/New", "A/Old", "A/Odd"):
            make_tool(name)
        self.rule = rule_save(**content(), code="NEW_OLD", publish=True).version.rule

    def __getitem__(self, name: str) -> User:
        return User.objects.get(username=name)  # fresh, as a new page request loads it

    def after(self, start: str) -> ChangeRequest:
        """`draft > edited ada > review` -> the request after these steps."""
        request: Any = None
        for step in start.split(" > "):
            name, *words = step.split()
            request = getattr(self, name)(*([request] if request else []), *words)
        return request

    def draft(self, text: str = TEXT + " Always.") -> ChangeRequest:
        return drafts.change_draft(actor=self["erin"], rule=self.rule, content=content(text)).request

    def new_rule(self, code: str = "", **fields: Any) -> ChangeRequest:
        said = content(TEXT + " New.", **fields)
        return drafts.change_draft(actor=self["erin"], content=said, code=code).request

    def empty(self) -> ChangeRequest:
        return drafts.request_create(actor=self["erin"])

    def unfinished(self) -> ChangeRequest:
        return self.new_rule(confusables=[])

    def unknown_tool(self) -> ChangeRequest:
        return self.new_rule(confusables=["A/Olt"])

    def erring(self) -> ChangeRequest:
        return self.draft("Use the newer one of the two, always.")

    def unchanged(self) -> ChangeRequest:
        return self.draft(TEXT)

    def twice_the_code(self) -> ChangeRequest:
        request = self.new_rule("SAME")
        said = content(TEXT + " Other.")
        drafts.change_add(request=request, actor=self["erin"], content=said, code="SAME")
        return request

    def withdrawal(self) -> ChangeRequest:
        return withdrawal_propose(rule=self.rule, actor=self["erin"]).request

    def review(self, request: ChangeRequest | None = None) -> ChangeRequest:
        request = request or self.draft()
        revision = ChangeRequest.objects.get(pk=request.pk).revision
        return changes_services.request_submit(request=request, actor=self["erin"], revision=revision)

    def approved(self, request: ChangeRequest | None = None) -> ChangeRequest:
        request = self.review(request)
        return changes_services.request_approve(request=request, actor=self["rui"], revision=request.revision)

    def scheduled(self, request: ChangeRequest | None = None) -> ChangeRequest:
        at = timezone.now() + timedelta(days=1)
        return changes_services.request_schedule(request=self.approved(request), actor=self["rui"], at=at)

    def applied(self, request: ChangeRequest | None = None) -> ChangeRequest:
        return changes_services.request_apply(request=self.approved(request), actor=self["rui"])

    def rejected(self) -> ChangeRequest:
        request, rui = self.review(), self["rui"]
        return changes_services.request_reject(
            request=request, actor=rui, revision=request.revision, reason="No."
        )

    def cancelled(self) -> ChangeRequest:
        return changes_services.request_cancel(request=self.draft(), actor=self["erin"])

    def edited(self, request: ChangeRequest, who: str = "erin") -> ChangeRequest:
        change = request.changes.get()
        said = {**change.content, "text": change.content["text"] + " Edited."}
        drafts.change_save(change=change, expected=change.revision, actor=self[who], content=said)
        return ChangeRequest.objects.get(pk=request.pk)

    def newer(self, request: ChangeRequest) -> ChangeRequest:
        """Otto published another version."""
        rule_save(**content(TEXT + " Theirs."), rule=self.rule, actor=self["otto"], publish=True)
        return request

    def withdrawn(self, request: ChangeRequest) -> ChangeRequest:
        rule_withdraw(rule=self.rule)
        return request

    def taken(self, request: ChangeRequest) -> ChangeRequest:
        """A rule with the code that the request proposes."""
        rule_save(**content(TEXT + " Taken."), code="SAME")
        return request

    def retired(self, request: ChangeRequest, name: str = "A/New") -> ChangeRequest:
        Tool.objects.filter(name=name).update(status=Tool.Status.RETIRED)
        return request

    def deactivated(self, request: ChangeRequest, name: str) -> ChangeRequest:
        User.objects.filter(username=name).update(is_active=False)
        return request

    def demoted(self, request: ChangeRequest, name: str) -> ChangeRequest:
        self[name].groups.clear()
        return request

    def written(self) -> list[Any]:
        """Everything that a refused verb must leave as it was."""
        tables = (RuleVersion, Rule, ChangeRequest, RuleChange, Approval, ChangeComment, AuditEntry)
        return [list(table.objects.order_by("pk").values()) for table in tables]


@dataclass(frozen=True)
class Way:
    """One line of the table."""

    name: str
    start: str
    who: str
    verb: str
    status: int
    code: str
    words: str
    form: dict[str, Any]

    @property
    def approvals(self) -> int:
        return int(self.form.get("needs", 1))

    def posted(self, request: ChangeRequest) -> dict[str, Any]:
        """The form as the page prints it, filled in."""
        data = {name: value for name, value in self.form.items() if name != "needs"}
        if self.verb in ("remove", "rebase"):
            change = request.changes.get()
            return {"change": change.pk, "revision": change.revision} | data
        return {"revision": ChangeRequest.objects.get(pk=request.pk).revision} | data

    def serve(self, request: ChangeRequest, actor: User) -> None:
        """The same through the services."""
        data = self.posted(request)
        revision = int(data.pop("revision"))
        if self.verb in ("remove", "rebase"):
            call = drafts.change_remove if self.verb == "remove" else drafts.change_rebase
            call(change=request.changes.get(), expected=revision, actor=actor)
            return
        if "at" in data:
            data["at"] = datetime.fromisoformat(data["at"]).replace(tzinfo=UTC)
        if self.verb == "describe":
            data.setdefault("description", "")
        if self.verb != "comment":
            data["revision"] = revision
        room = drafts if self.verb == "describe" else changes_services
        getattr(room, f"request_{self.verb}")(request=request, actor=actor, **data)


def ways() -> list[Way]:
    """The table of change_ways.txt."""
    lines = Path(__file__).with_name("change_ways.txt").read_text().splitlines()
    found = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        name, start, who, verb, status, code, words, form = (cell.strip() for cell in line.split("|"))
        pairs = (pair.partition("=") for pair in form.split("; ") if pair)
        data = {key: WORDS.get(value, value) for key, _, value in pairs}
        found.append(Way(name, start, who, verb, int(status), code, words, data))
    return found
