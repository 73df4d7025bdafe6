"""Files from the field and what is right of each, read where the shared cases are; and more of the same kinds."""

import json
import unicodedata
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command

from catalog.core.importers.read import read_catalog
from catalog.core.words import name_words
from catalog.imports.services import catalog_import
from catalog.models import Tool
from catalog.queries.imports import queries_preview, read_queries
from catalog.search import ToolFilter, find_tools
from evaluation.benchmarks.services import benchmark_import
from rules.core.rules_file import read_rules
from rules.exchange.services import rules_import
from synthesis.generate.imports import samples_import
from synthesis.models import Sample
from tests.factories import make_tool
from tests.tokens import token_of
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_jsonl

CASES = Path(settings.TRACE_PUBLIC_DATA) / "cases"
READ, CHECK = "Löhne/Abrechnung lesen", "Löhne/Abrechnung prüfen"
of_the_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are absent (set TRACE_PUBLIC_DATA)")


@pytest.fixture
def wages(db):
    return catalog_import(path=CASES / "nfd" / "tools.jsonl", domain="hr")


# Two spellings


@of_the_cases
@pytest.mark.usefixtures("wages")
def test_the_rule_and_the_tool_of_the_case_are_those_of_the_catalog():
    found, _ = rules_import(path=CASES / "nfd" / "rules-nfd.json", publish=True)
    again = catalog_import(path=CASES / "nfd" / "tools-nfd.jsonl", domain="hr", dry_run=True)
    assert (found.counts()["added"], again.counts["added"]) == (1, 0)


@of_the_cases
@pytest.mark.usefixtures("wages")
@pytest.mark.parametrize(("name", "close", "imported"), [("samples-nfc", 1, 1), ("samples-nfd", 2, 0)])
def test_samples_of_the_case_are_held_against_the_benchmark(name, close, imported):
    benchmark_import(path=CASES / "nfd" / "benchmark.jsonl", kind="prb", name="held")
    counts = samples_import(path=CASES / "nfd" / f"{name}.jsonl")
    assert (counts.contaminated, counts.imported) == (close, imported)


def decomposed(text):
    return unicodedata.normalize("NFD", text)


# a tool, its look-alike, a request, and how another system writes them
SPELLINGS = {
    "Vietnamese": ("Lương/Xem bảng", "Lương/Duyệt bảng", "Hiển thị bảng lương tháng ba", decomposed),
    "jamo": ("급여/명세서 조회", "급여/명세서 검토", "삼월 급여 명세서를 보여 주세요", decomposed),
    "voiced kana": ("給与/データ取得", "給与/データ確認", "三月のデータを見せてください", decomposed),
    "fixed blanks": ("Pay/get slip", "Pay/check slip", "show my slip", lambda one: one.replace(" ", "\xa0")),
    "fixed hyphens": (
        "Pay/get-slip",
        "Pay/check-slip",
        "my pay-slip",
        lambda one: one.replace("-", "\u2011"),
    ),
    "soft hyphens": ("Pay/get slip", "Pay/check slip", "show my slip", lambda one: one.replace("l", "l\xad")),
    "marks of order": (
        "حقوق/فیش",
        "حقوق/بررسی",
        "فیش ماه مارس را نشان بده",
        lambda one: f"\u202b{one}\u200f",
    ),
    "joiners": ("वेतन/पर्ची", "वेतन/जाँच", "मार्च की पर्ची दिखाओ", lambda one: f"{decomposed(one)}\u200d\u200b"),
    "Kelvin": ("Lån/Ångra", "Lån/Ändra", "Ångra mitt lån nu", lambda one: one.replace("Å", "\u212b")),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("tool", "other", "asked", "spelt"), SPELLINGS.values(), ids=SPELLINGS)
def test_every_way_in_knows_a_text_in_another_spelling(
    load, tmp_path, client, user_with, tool, other, asked, spelt
):
    load(*({"name": name, "description": "Shows it."} for name in (tool, other)))
    sheet = "name,description\n" + "".join(f'"{spelt(name)}",Shows it.\n' for name in (tool, other))
    (tmp_path / "tools.csv").write_text(sheet)
    assert catalog_import(path=tmp_path / "tools.csv", domain="hr").counts["unchanged"] == 2
    told = f"Use {spelt(tool)} to see one, and use {spelt(other)} only to verify one of last year."
    rule = {"tool_name": spelt(tool), "confusables": [spelt(other)], "rule_text": told}
    rule["tests"] = [{"query": spelt(asked), "tools": [spelt(tool)]}]
    (tmp_path / "rules.json").write_text(json.dumps([rule]))
    assert rules_import(path=tmp_path / "rules.json", publish=True)[1] == 1
    write_jsonl(tmp_path / "held.jsonl", [{"query": asked, "tools": [spelt(tool)]}])
    benchmark_import(path=tmp_path / "held.jsonl", kind="prb", name="held")
    write_jsonl(tmp_path / "samples.jsonl", [{"query": spelt(asked), "tools": [spelt(tool)]}])
    assert samples_import(path=tmp_path / "samples.jsonl").contaminated == 1
    assert [one.code for one in queries_preview(read_queries(spelt(asked)))] == ["benchmark"]
    assert find_tools(ToolFilter(search=spelt(tool))).page.rows
    headers = {"Authorization": f"Token {token_of(user_with('expert', 'admin'))}"}
    assert client.get(f"/api/v1/tools/named/{quote(spelt(tool))}", headers=headers).status_code == 200
    form = {"domain": "hr", "dry_run": "true", "file": SimpleUploadedFile("t.csv", sheet.encode("utf-16"))}
    assert client.post("/api/v1/imports", form, headers=headers).json()["counts"]["unchanged"] == 2
    checked = client.post("/api/v1/rules/check", rule, "application/json", headers=headers).json()
    assert "unknown_name" not in {one["code"] for one in checked["findings"]}


@pytest.mark.django_db
@pytest.mark.parametrize("spelt", [str, decomposed])
def test_a_tool_stored_decomposed_is_found_and_gets_no_twin(load, tmp_path, client, user_with, spelt):
    old = make_tool(decomposed(READ), description="Liest."), make_tool(decomposed(CHECK))
    rows = ({"name": spelt(name), "description": "Liest."} for name in (READ, CHECK, "Löhne/Neu"))
    counts = load(*rows, domain=old[0].domain_id).counts
    assert (counts["added"], counts["removed"]) == (1, 0)
    assert Tool.objects.count() == 3 and len(set(Tool.objects.values_list("api", flat=True))) == 1
    rule = {"tool_name": spelt(READ), "confusables": [spelt(CHECK)]}
    rule |= {"rule_text": spelt(f"Ab 2024 gilt {READ}, vor 2024 gilt {CHECK}.")}
    (tmp_path / "rules.json").write_text(json.dumps([rule]))
    assert rules_import(path=tmp_path / "rules.json", publish=True)[1] == 1
    write_jsonl(tmp_path / "samples.jsonl", [{"query": "Zeig mir bitte alle", "tools": [spelt(READ)]}])
    assert samples_import(path=tmp_path / "samples.jsonl").imported == 1
    assert Sample.objects.get().answer == [old[0].name]
    headers = {"Authorization": f"Token {token_of(user_with('expert'))}"}
    assert client.get(f"/api/v1/tools/named/{quote(spelt(READ))}", headers=headers).json()["id"] == old[0].pk
    assert client.post("/api/v1/rules/check", rule, "application/json", headers=headers).status_code == 200


# Names, brackets, personal data


@of_the_cases
def test_names_of_the_case_are_told_apart_in_their_words():
    names = [tool.name for tool in read_catalog(CASES / "names-1c" / "zup.xml").records]
    assert len(names) == 16
    assert {"начисление", "зарплаты"} <= {word for name in names for word in name_words(name)}


@of_the_cases
def test_brackets_of_the_case_stay_where_they_are_no_markup():
    found = {
        tool.name[-1]: tool.description for tool in read_catalog(CASES / "angle-brackets/people.yaml").records
    }
    assert "/employees/<employee_id>/contracts/<contract_id>" in found["a"]
    assert "List<Payslip>" in found["b"] and "Map<Month, Payslip>" in found["b"]
    assert "grade<B2 and tenure>5 years" in found["c"]
    assert found["d"] == "Returns a list of open posts. One page each."
    assert "<tenant>.example.com" in found["e"] and "curl <url>" in found["e"]


@of_the_cases
@pytest.mark.usefixtures("wages")
def test_samples_of_the_case_hold_nothing_personal(capsys):
    call_command("samples_import", str(CASES / "pii" / "samples.jsonl"))
    sample = Sample.objects.get()
    assert sample.query == "Show the payslip of [name], IBAN [IBAN], phone [phone]"
    assert sample.answer == [READ] and "replaced in 1" in capsys.readouterr().out


# Sheets


@of_the_cases
@pytest.mark.parametrize("name", ["sep.csv", "tabs.csv", "unicode-text.csv", "mac.txt"])
def test_requests_of_the_case_are_read(name):
    rows = read_queries((CASES / "sheet-queries" / name).read_bytes(), name)
    first, second = (row.text for row in rows)
    assert first.startswith("Send me the payslip") and second.startswith("How many days")


ONE, TWO = "Send me, please, the payslip", "How many days of leave do I have"
CELLS = [["query", "lang"], [f'"{ONE}"', "en"], [TWO, "en"]]


def joined(rows, mark=",", end="\n"):
    return end.join(mark.join(row) for row in rows) + end


@pytest.mark.parametrize("name", ["q.csv", "q.txt", "q.tsv"])
@pytest.mark.parametrize(
    "text",
    [
        joined(CELLS, "|"),
        joined(CELLS, "；"),
        "Requests of May\n\n" + joined(CELLS, ";"),
        joined([["", *row, "", ""] for row in CELLS]),
        joined([["ｑｕｅｒｙ", "Lang\u200b"], *CELLS[1:]], ";"),
        joined([["\xa0Query ", "score"], [ONE, "1,5"], [TWO, "2,5"]], ";"),
        f"query\n{ONE}\n{TWO}\n",
        f'\ufeff"query"\r"{ONE}"\r"{TWO}"\r',
    ],
)
def test_a_sheet_is_read_however_it_is_laid_out(name, text):
    for encoding in ("utf-8", "utf-16", "utf-16-be"):
        assert [row.text for row in read_queries(text.encode(encoding), name)] == [ONE, TWO]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"query,lang\n{ONE},en\n", "q.csv:2: has more than 2 cells"),
        (joined([["query", "query"], [TWO, TWO]]), "the column 'query' twice"),
        (joined(CELLS[1:]), "names no column of queries"),
        ('query,lang\n"Show me,en\n', "never closed"),
    ],
)
def test_a_sheet_that_cannot_be_read_is_refused_by_its_line(text, said):
    with pytest.raises(TraceError) as refused:
        read_queries(text, "q.csv")
    assert said in str(refused.value)


def test_null_in_an_optional_field_of_a_rule_is_like_left_out():
    rule = {"tool_name": "Pay/get", "confusables": ["Pay/old"], "rule_text": "One, not all."}
    rule["clauses"] = [{"when": "now", "route_to": "Pay/get", "exception": None, "signals": None}]
    rule |= dict.fromkeys(("code", "domain", "tests"))
    file = read_rules(json.dumps([rule]).encode(), "rules.json", 10)
    assert not file.problems.items and file.entries[0].content.clauses[0]["signals"] == []
    for name in ("tool_name", "confusables", "rule_text"):
        assert read_rules(json.dumps([rule | {name: None}]).encode(), "r.json", 10).problems.items
