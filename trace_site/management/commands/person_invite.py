"""manage.py person_invite: the first admin, or anybody else, with a link that sets their password."""

from typing import Any

from django.conf import settings
from django.core.management import CommandParser

from trace_site.access import ROLES
from trace_site.commands import TraceCommand
from trace_site.dev.supervisor import address_served
from trace_site.people.services import ensure_roles, link_of, mail_link, person_invite


class Command(TraceCommand):
    help = "Let a person in: prints the link with which they set a password."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="user name")
        parser.add_argument("--role", action="append", default=[], choices=ROLES, help="may be given twice")
        parser.add_argument("--email", default="")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        ensure_roles()
        name, email, roles = options["name"], options["email"], options["role"]
        person = person_invite(username=name, email=email, roles=roles, actor=None)
        link = f"{settings.SITE_URL or address_served()}{link_of(person)}"
        days = settings.PASSWORD_RESET_TIMEOUT // 86_400
        sentence = f"{person.get_username()} sets a password at {link} within {days} days."
        return {"id": person.pk, "link": link}, f"{sentence} {mail_link(person, link)}".strip()
