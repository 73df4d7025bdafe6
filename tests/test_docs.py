"""The pages for people: what they say of folders, commands, addresses and demo data is so, and no link is broken."""

import json
import re
import shlex
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.urls import get_resolver, resolve

from tests.house import limits, measured, printed
from tests.sources import APPS, ROOT, imports_of, modules

README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
HOUSE = ["trace_site/lib", "trace_site", *APPS]  # the apps in the order in which they may import
NO_ROOMS = {"migrations", "management", "commands", "tests", "__pycache__"}
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
DEMO = ROOT / "trace_site" / "demo"


def packages() -> set[str]:
    found = {path.parent for path in modules()}
    return {str(path) for path in found if not NO_ROOMS & set(path.parts)}


def rooms_of(app: str) -> list[set[str]]:
    """The row of an app in the picture of the rooms: sets of names, each set imports from those before it."""
    (row,) = re.findall(rf"^{app} {{2,}}(\S.*)$", ARCHITECTURE, re.MULTILINE)
    return [set(re.findall(r"\w+", part)) for part in row.split("<")]


def test_architecture_has_one_line_for_every_package_and_none_for_a_folder_that_is_gone():
    lines = re.findall(r"^- `([^`]+)/`: \S.*$", ARCHITECTURE, re.MULTILINE)
    assert sorted(set(lines)) == sorted(lines)
    assert packages() - set(lines) == set()
    assert [name for name in lines if not (ROOT / name).is_dir()] == []


def test_picture_shows_the_apps_in_the_order_of_their_imports():
    assert f"\n{' < '.join(HOUSE)}\n" in ARCHITECTURE


@pytest.mark.parametrize("app", ["trace_site", *APPS])
def test_picture_shows_the_rooms_of_an_app_and_none_imports_from_its_right(app):
    rows = rooms_of(app)
    drawn = [room for row in rows for room in row]
    assert sorted(drawn) == sorted(
        name.split("/")[1] for name in packages() if name.startswith(f"{app}/") and name.count("/") == 1
    )
    for place, row in enumerate(rows):
        later = {f"{app}.{room}" for after in rows[place + 1 :] for room in after}
        wrong = [
            f"{path}: {name}"
            for room in row
            for path in modules()
            if path.parts[:2] == (app, room)
            for name in imports_of(path)
            if ".".join(name.split(".")[:2]) in later
        ]
        assert wrong == []


def test_house_does_not_grow_and_its_page_says_how_large_it_is():
    grown = {name: value for name, value in measured().items() if value > limits()[name]}
    assert grown == {}
    assert printed(limits()) == ARCHITECTURE


def test_limits_of_the_house_are_lowered_with_it():
    """`python -m tests.house` does that; a little may stay, so that not every change moves them."""
    unused = {name: limits()[name] - value for name, value in measured().items()}
    assert {name: rest for name, rest in unused.items() if rest > max(5, limits()[name] // 500)} == {}


def ours() -> set[str]:
    return {
        path.stem
        for app in ("trace_site", *APPS)
        for path in (ROOT / app / "management" / "commands").glob("[a-z]*.py")
    }


def named_in_tables() -> set[str]:
    return set(re.findall(r"^\| `(\w+)", COMMANDS, re.MULTILINE))


def test_commands_page_names_every_command_of_ours_and_none_that_is_not_there():
    assert ours() - named_in_tables() == set()
    assert named_in_tables() - set(get_commands()) == set()


def ten_commands() -> list[str]:
    (block,) = re.findall(r"## Ten commands\n.*?```\n(.*?)```", README.read_text(), re.DOTALL)
    return [line for line in block.splitlines() if not line.startswith(" ")]


def calls_shown() -> list[str]:
    """The README's ten commands, those of the tables, and every line that begins with manage.py."""
    found = ten_commands()
    found += re.findall(r"^\| `([^`]+)` \|", COMMANDS, re.MULTILINE)
    for page in PAGES:
        found += re.findall(r"^manage\.py (.*)$", page.read_text(), re.MULTILINE)
    return [re.split(r" {2,}", line)[0] for line in found]


@pytest.mark.parametrize("call", calls_shown())
def test_command_shown_takes_the_options_shown(call):
    call = re.sub(r"\bID\b", "1", call)
    name, *words = shlex.split(call)
    app = get_commands()[name]
    command = load_command_class(app, name) if isinstance(app, str) else app
    parser = command.create_parser("manage.py", name)
    options = {option for action in parser._actions for option in action.option_strings}
    assert [word for word in words if word.startswith("--") and word not in options] == []
    if words:  # a name alone stands for the command, not for a call of it
        parser.parse_args(words)


def test_readme_has_ten_commands_and_five_calls():
    assert len(ten_commands()) == 10
    assert README.read_text().count("\ncurl ") == 5


def test_readme_fits_into_8_kb():
    assert README.stat().st_size <= 8192


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_of_a_page_leads_somewhere(path):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        where = (path.parent / name).resolve() if name else path
        if not where.exists() or (anchor and anchor not in anchors(where)):
            broken.append(target)
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The names that headings have as targets of links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_in_docs_is_linked_from_the_readme():
    linked = set(re.findall(r"\]\((docs/\w+\.md)", README.read_text()))
    assert linked == {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}


def test_a_decision_takes_at_most_five_lines():
    text = (ROOT / "docs" / "decisions.md").read_text()
    entries = re.split(r"\n(?=\*\*|## )", text)[1:]
    assert len(entries) > 60
    assert [entry for entry in entries if len(entry.strip()) > 5 * 120] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_addresses_in_calls_exist(path):
    for address in re.findall(r"\$SITE(/api/v1/[\w/-]+)", path.read_text()):
        resolve(address)


def test_api_page_names_every_kind_of_resource_and_none_that_is_not_there():
    rows = re.findall(r"^\| (`[^|]*) \|", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    addresses = re.findall(r"`([^`]+)`", " ".join(rows))
    for address in addresses:
        resolve(f"/api/v1/{address.replace('ID', '1')}")
    included = [found for found in get_resolver().url_patterns if str(found.pattern) == "api/v1/"]
    kinds = {str(one.pattern).split("/")[0] for found in included for one in found.url_patterns}
    assert kinds - {"schema", "docs"} == {address.split("/")[0] for address in addresses}


def test_example_of_the_readme_is_in_the_demo_data():
    """Tools, rule and sample are quoted word for word; the rule is shortened where the text says so."""
    text = README.read_text()
    tools = {row["name"]: row["description"] for row in map(json.loads, (DEMO / "hr_tools.jsonl").open())}
    rule = next(
        row for row in json.loads((DEMO / "rules.json").read_text()) if row["code"] == "PAYSLIP_PERIOD"
    )
    recorded = [
        row for row in map(json.loads, (DEMO / "recorded.jsonl").open()) if row.get("rule") == rule["code"]
    ]
    shown = re.findall(r"^\| `(\w+/\w+)` \| (.*) \|$", text, re.MULTILINE)
    assert len(shown) == 2 and all(
        tools[name] == said and name in {rule["tool_name"], *rule["confusables"]} for name, said in shown
    )
    (quoted,) = re.findall(r"^> (The payroll .*)$", text, re.MULTILINE)
    assert rule["rule_text"].startswith(quoted)
    parts = re.findall(r"^> \*\*(?:Request|Trace|Tools):\*\* (.*)$", text, re.MULTILINE)
    assert len(parts) == 3
    query, trace, answer = parts
    last = [row["attempts"][-1] for row in recorded]
    assert (query, trace, json.loads(answer.strip("`"))) in [
        (one["query"], one["trace"], one["answer"]) for one in last
    ]
