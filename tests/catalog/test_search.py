"""Finding tools: ranks, pages, inner parts of words, slips of the keyboard; and the words that make it possible."""

import json
from pathlib import Path

import pytest

from catalog.core.words import inner_trigrams, spelt_alike, trigrams, vocabulary
from catalog.imports.services import catalog_import
from catalog.models import CatalogWord
from catalog.search import ToolFilter, find_tools

pytestmark = pytest.mark.django_db


@pytest.fixture
def load(tmp_path: Path):
    def run(**tools: str) -> None:
        path = tmp_path / "tools.jsonl"
        rows = [{"name": name.replace("__", "/"), "description": text} for name, text in tools.items()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        catalog_import(path=path, domain="hr")

    return run


def found(text: str, **chosen: str) -> list[str]:
    return [tool.name for tool in find_tools(ToolFilter(search=text, **chosen)).page.rows]


def test_part_inside_a_word_finds_the_tool_and_says_how(load) -> None:
    load(Nova__GetPayslip="Shows net pay.", Hub__GetShift="Shows a roster.")
    assert found("ayslip") == ["Nova/GetPayslip"]
    assert find_tools(ToolFilter(search="ayslip")).meant == {"ayslip": ["payslip"]}


@pytest.mark.parametrize("typed", ["paysilp", "payslp", "payslipp", "paislip", "get paysilp"])
def test_slip_of_the_keyboard_finds_the_tool(load, typed) -> None:
    load(Nova__GetPayslip="Shows net pay.", Hub__GetShift="Shows a roster.", Hub__GetPass="Shows a card.")
    assert found(typed) == ["Nova/GetPayslip"]


def test_words_that_begin_as_typed_come_before_those_that_hold_it(load) -> None:
    load(Nova__GetInvoice="Shows an invoice, every invoice.", Nova__GetVoice="Shows sound.")
    assert found("voice") == ["Nova/GetVoice", "Nova/GetInvoice"]


def test_a_word_of_the_catalog_is_not_taken_for_a_slip(load) -> None:
    load(Nova__GetInvoice="Shows it.", Nova__GetInvoke="Starts it.")
    assert found("invoice") == ["Nova/GetInvoice"]


def test_nothing_alike_finds_nothing(load) -> None:
    load(Nova__GetPayslip="Shows net pay.")
    assert found("qqzzxx") == [] and found("payslip qqzzxx") == []


def test_two_letters_of_a_word_find_it_though_they_are_a_stop_word(load) -> None:
    load(Nova__GetInvoice="Shows it.")
    assert found("in") == ["Nova/GetInvoice"]


def test_stop_words_of_a_sentence_are_passed_over(load) -> None:
    load(Nova__GetPayslip="Shows the net pay of a month.")
    assert found("the payslip of a month") == ["Nova/GetPayslip"]


def test_better_matches_come_first(load) -> None:
    load(A__One="The payslip is shown beside many other papers of the month.", B__Payslip="Payslip: payslip.")
    assert found("payslip") == ["B/Payslip", "A/One"]


def test_pages_of_a_search_hold_every_match_once(load) -> None:
    load(**{f"A__Payslip{number:02}": f"Shows {'payslip ' * (number % 4)}." for number in range(23)})
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = find_tools(ToolFilter(search="payslip"), after, size=5).page
        seen += [tool.name for tool in page.rows]
        after = page.next_key
    assert len(seen) == len(set(seen)) == 23
    assert seen == found("payslip")


def test_key_that_is_none_starts_at_the_first_page(load) -> None:
    load(A__Payslip="Shows it.")
    page = find_tools(ToolFilter(search="payslip"), "made up").page
    assert [tool.name for tool in page.rows] == ["A/Payslip"]


def test_more_matches_than_are_ranked_are_listed_by_name_and_said_to_be_more(load, monkeypatch) -> None:
    monkeypatch.setattr("catalog.search.RANKED", 3)
    load(**{f"A__Payslip{number}": "Shows it." for number in range(5)})
    result = find_tools(ToolFilter(search="payslip"), size=2)
    assert (result.total, result.more, result.page.next_key) == (3, True, "A/Payslip1")


def test_api_filter_takes_a_whole_name_or_how_one_begins(load) -> None:
    load(Pay__x="Shows it.", PayV2__x="Shows it.", Other__x="Shows it.")
    assert found("", api="Pay") == ["Pay/x"]
    assert found("", api="payv") == ["PayV2/x"]
    assert found("", api="nothing") == []


def test_import_keeps_the_words_of_new_texts(load) -> None:
    load(Nova__GetPayslip="Shows net pay.")
    load(Nova__GetPayslip="Prints a certificate.")
    words = set(CatalogWord.objects.values_list("word", flat=True))
    assert {"payslip", "getpayslip", "nova", "certificate", "shows"} <= words


def test_vocabulary_leaves_out_numbers_and_crumbs() -> None:
    assert vocabulary("PayV68/get", "A 12345 of it, in 2024: éclair") == {
        "payv68",
        "v68",
        "pay",
        "get",
        "éclair",
    }


def test_trigrams_are_those_of_pg_trgm() -> None:
    assert trigrams("cat") == ["  c", " ca", "at ", "cat"]
    assert inner_trigrams("cats") == ["ats", "cat"]


def test_likeliest_word_comes_first() -> None:
    assert spelt_alike("invioce", ["voice", "invoice", "invoices", "office"]) == ["invoice", "invoices"]
