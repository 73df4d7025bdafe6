"""Texts as the field sends them: two spellings of one letter, scripts without spaces, invisible characters, people."""

import json
import random
import unicodedata

import pytest
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.mentions import NameFinder
from catalog.core.near_duplicates import DuplicateIndex
from catalog.core.pointers import title
from catalog.core.words import join_words, name_words, plain_words, text_key
from catalog.models import LabelledQuery, Tool
from catalog.queries.imports import _no_request, queries_preview, read_queries
from catalog.queries.registry import benchmark_firewall
from catalog.search import ToolFilter, find_tools
from evaluation.benchmarks.services import benchmark_import
from evaluation.core.questions import Questions, statements
from evaluation.core.written_out import concluded
from rules.core.draft import diff_rules
from rules.core.reading import read_statements
from rules.core.redirects import Described
from rules.core.rule import RuleContent
from rules.exchange.services import rules_import
from synthesis.core.names import last_sentence
from synthesis.generate.imports import samples_import
from synthesis.models import Sample
from tests.tokens import token_of
from trace_site.lib.files import write_jsonl
from trace_site.lib.letters import count_words, entered, folded, invisible, split_words
from trace_site.lib.worddiff import word_diff
from training.core.memorization import asked_for

READ, CHECK, OLD = "Löhne/Abrechnung lesen", "Löhne/Abrechnung prüfen", "LöhneAlt/Abrechnung lesen"
ASKED = [
    {"query": "Zeig mir die Gehälter für die Löhne im März", "tools": [READ]},
    {"query": "Prüfe bitte die Abrechnung vom Frühjahr", "tools": [CHECK]},
]


def nfd(value):
    """The same JSON in the decomposed form, as file systems and PDF files have it."""
    return json.loads(unicodedata.normalize("NFD", json.dumps(value, ensure_ascii=False)))


@pytest.fixture
def wages(load):
    return load(*({"name": name, "description": f"Liest {name}."} for name in (READ, CHECK, OLD)))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Document_НачислениеЗарплаты", ["document", "начисление", "зарплаты"]),
        ("getÜbersicht", ["get", "übersicht"]),
        ("ΑναφοράΜισθού", ["αναφορά", "μισθού"]),
        ("obtenerNóminaÚltima", ["obtener", "nómina", "última"]),
        ("XMLЗапросДанных", ["xml", "запрос", "данных"]),
        (
            "AdyenPayoutV68/post-confirmThirdParty",
            ["adyen", "payout", "v68", "post", "confirm", "third", "party"],
        ),
        ("給与明細/GetSlip", ["給", "与", "明", "細", "get", "slip"]),
    ],
)
def test_a_change_of_case_ends_a_word_in_every_script(name, words):
    assert name_words(name) == name_words(unicodedata.normalize("NFD", name)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("इस महीने का वेतन", 4),
        ("Hiển thị bảng lương tháng ba", 6),
        ("3월 급여 명세서를 보여줘", 4),
        ("三月の給与明細を見せてください", 8),
        ("请给我看三月份的工资单", 6),
        ("show the payslip of May, please", 6),
    ],
)
def test_words_are_counted_in_every_script(text, words):
    assert count_words(text) == count_words(unicodedata.normalize("NFC", text)) == words
    assert _no_request(text) is None
    assert "".join(part.text for part in word_diff(text, text + "!")[1]) == text + "!"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Löhne für März", unicodedata.normalize("NFD", "Löhne für März")),
        ("tháng lương Việt", unicodedata.normalize("NFD", "tháng lương Việt")),
        ("급여 명세서", unicodedata.normalize("NFD", "급여 명세서")),
        ("ＧＥＴ　ｐａｙｓｌｉｐ １２", "get payslip 12"),
        ("the ﬁnal oﬀer", "the final offer"),
        ("ﾃﾞｰﾀを見る", "データを見る"),
        ("pay\u200bslip\ufeff of\u00ad May", "payslip of may"),
        ("İzin günü", "izin günü"),
        ("क\u094d\u200dष पर्ची", "क\u094dष पर्ची"),
        ("می\u200cخواهم كتاب علي", "می خواهم کتاب علی"),
        ("راتب ديسمبر ٢٠٢٤", "راتب ديسمبر 2024"),
        ("١٢ \u2066pay\u2069", "12 pay"),
        ("葛\U000e0100飾 ㈱", "葛飾 (株)"),
        ("10㎡ ｶﾅ", "10m2 カナ"),
        ("ok ❤\ufe0f pay", "OK ❤ pay"),
    ],
)
def test_two_spellings_are_one_text(one, other):
    assert plain_words(one) == plain_words(other) and text_key(one) == text_key(other)
    assert DuplicateIndex([one]).find(other)[0].kind == "exact"


def test_keys_of_ascii_texts_are_what_they_were():
    assert text_key("Show me the pay-slip, please!") == (
        "a8216ebc8360b73d4aaff9c12437e105889616f0ee74467a7c53781a486903ee"
    )
    assert entered("a\tb  c") == "a\tb  c" and split_words("don't a_b v2") == ["don", "t", "a", "b", "v2"]


@given(
    st.text(
        st.one_of(st.sampled_from("ae\u0301\u200b\u200d\u200c\ufe0f\u00admكक\u094d👨❤1"), st.characters()),
        max_size=9,
    )
)
def test_what_is_entered_stays(text):
    assert entered(entered(text)) == entered(text) and not invisible(entered(text))
    assert folded(entered(text)) == folded(text)
    assert "".join(part.text for part in word_diff(text, "")[0]) == text


def test_what_a_script_needs_is_not_taken_for_invisible():
    for text in (
        *(
            "می\u200cخواهم",
            "क\u094d\u200dष",
            "👨\u200d👩\u200d👧 ❤\ufe0f",
            "ত\u09cd\u200d",
            "ه\u200d.",
            "1\ufe0f\u20e3",
        ),
        *(
            "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
            "葛\U000e0100",
            "ᠠ\u180bᠡ\u180eᠠ",
        ),
    ):
        assert entered(text) == text
    assert entered("a\u00a0b\u3000c\u2011d 🏴\U000e0061\u200c") == "a b c-d 🏴"
    assert entered("Pay\u200d/get\u200b\u202e\U000e0041\ufe0f") == "Pay/get"
    assert join_words(name_words("給与明細")) == "給与明細"


@pytest.mark.django_db
def test_a_tool_in_the_other_spelling_is_the_same_tool(wages, load):
    again = load(nfd({"name": READ, "description": f"Liest {READ}."}))
    assert (again.counts["added"], again.counts["unchanged"], Tool.objects.count()) == (0, 1, 3)
    rows = nfd([{"name": READ}, {"name": CHECK, "description": "Prüft."}])
    assert load(*rows, skip_bad_rows=True).diff.removed == []  # a row that cannot be read keeps its tool


@pytest.mark.django_db
def test_a_rule_in_the_other_spelling_finds_its_tools(wages, tmp_path):
    rule = {"tool_name": READ, "confusables": [OLD], "rule_text": f"Ab 2024 gilt {READ}, früher {OLD}."}
    (tmp_path / "rules.json").write_text(json.dumps(nfd([rule]), ensure_ascii=False))
    found, *_ = rules_import(path=tmp_path / "rules.json", publish=True)
    assert found.counts()["added"] == 1
    call_command("rules_check", json=True)


@pytest.mark.django_db
def test_the_preview_of_rules_counts_those_with_invisible_characters(wages, tmp_path):
    rule = {"tool_name": READ, "confusables": [OLD + "\u200b"], "rule_text": f"Ab 2024 {READ}, früher {OLD}."}
    (tmp_path / "rules.json").write_text(json.dumps([rule]))
    found, *_ = rules_import(path=tmp_path / "rules.json", dry_run=True)
    assert found.entries[0].content.confusables == (OLD,)
    assert found.ignored == {"characters that nobody sees": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("給与/GetSlip", "三月は給与/GetSlipを使う"),
        ("薪资/查询", "请用薪资/查询来查三月份"),
        ("เงินเดือน/อ่าน", "ใช้เงินเดือน/อ่านสำหรับเดือนนี้"),
    ],
)
def test_a_name_is_found_where_the_script_goes_on_without_a_space(name, text):
    assert [found[2] for found in NameFinder([name]).find(text)] == [name]
    assert not NameFinder(["Pay/get"]).find("Pay/getÜbersicht")


@pytest.mark.parametrize(
    "full_stop", ["。", "！", "。 ", "। ", ". ", "؟ ", "։ ", "። ", "۔", "។", "。」", "?! "]
)
def test_a_sentence_ends_with_the_full_stop_of_its_script(full_stop):
    text = f"給与/GetOldではない{full_stop}だから給与/GetSlipを使う{full_stop}"
    mentions = NameFinder(["給与/GetSlip", "給与/GetOld"]).find(text)
    assert text[last_sentence(text, mentions) :].startswith("だから")
    assert (
        len(read_statements(text, ["給与/GetSlip", "給与/GetOld"]))
        == len(Described("A/b", text).sentences)
        == 2
    )
    if not full_stop.isascii():
        assert asked_for(text).rstrip(full_stop) == title(text).rstrip(full_stop) == "給与/GetOldではない"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("三月は給与/Aを使う。", "四月は給与/Aを使う。", ["三", "四"]),
        ("เดือนนี้ใช้ A/b", "เดือนหน้าใช้ A/b", ["นี้", "หน้า"]),
        ("Use A/b  in March.", "Use A/b in May.", ["  in March.", " in May."]),
        ("Löhne im März", "Löhne", [" im März"]),
    ],
)
def test_a_difference_of_rules_is_shown_word_by_word_and_gives_the_texts_back(old, new, words):
    pieces = diff_rules(*(RuleContent("", (), text) for text in (old, new))).text
    assert "".join(said for kind, said in pieces if kind != "removed") == new
    assert all(said.strip() in "".join(words) for kind, said in pieces if kind != "same")


def test_the_clause_whose_words_a_model_repeats_most_speaks_in_every_script():
    said = {"rule": "LEAVE", "domain": "hr", "stance": "use", "set": [], "tools": ["給与/A"], "trained": True}
    clauses = [said | {"text": text} for text in ("四月は給与/Aを使う。", "三月分なら給与/A。")]
    found = concluded("LEAVE三月分なので給与/A", {}, ["給与/A"], [clauses[0] | {"rule": "X"}, *clauses])
    assert found.clause == clauses[1]


def test_questions_of_a_catalog_are_cut_and_compared_in_its_script():
    text = "三月の給与明細を読む。給与/GetSlipは四月の賞与明細も読む！"
    assert statements(text, ["給与/GetSlip"]) == [
        "三月の給与明細を読む。",
        "this toolは四月の賞与明細も読む！",
    ]
    rows = [
        {"name": f"A/t{n}", "description": f"{n}月の給与明細を読む。", "domain": "hr"} for n in "一二三四"
    ]
    names = [row["name"] for row in rows]
    assert Questions(rows, {names[0]: names[1:]}).mcq(names[0], random.Random(0)) is not None


@pytest.mark.django_db
@pytest.mark.parametrize("spelt", [nfd, lambda value: value])
def test_requests_of_a_benchmark_stay_out_in_either_spelling(wages, tmp_path, spelt):
    write_jsonl(tmp_path / "benchmark.jsonl", ASKED)
    benchmark_import(path=tmp_path / "benchmark.jsonl", kind="prb", name="held")
    more = {"query": "Ein ganz anderer Wunsch nach einer Abrechnung", "tools": [READ]}
    write_jsonl(tmp_path / "samples.jsonl", spelt(ASKED))
    counts = samples_import(path=tmp_path / "samples.jsonl")
    assert (counts.contaminated, counts.imported) == (2, 0)
    write_jsonl(tmp_path / "samples.jsonl", spelt([*ASKED, more]))
    counts = samples_import(path=tmp_path / "samples.jsonl")
    assert (counts.contaminated, counts.imported) == (2, 1)
    assert Sample.objects.get().answer == [READ]


@pytest.mark.django_db
def test_invisible_characters_are_taken_out_and_the_preview_says_so(load):
    found = load({"name": "Pay\u200b/get\ufeff", "description": "Reads\u00ad it."}, dry_run=True)
    assert [record.name for record in found.diff.added] == ["Pay/get"]
    assert "3 characters that nobody sees, in 'Pay/get'" in str(found.notes[0])


@pytest.mark.django_db
@pytest.mark.parametrize("typed", ["зарплаты", "明細", "与明", "ｐａｙ", "lương"])
def test_words_of_every_script_are_found(load, typed):
    load(
        {"name": "Catalog/НачислениеЗарплаты", "description": "Проводит документ."},
        {"name": "HR/get", "description": "給与明細を取得する。"},
        {"name": "Nova/pay", "description": unicodedata.normalize("NFD", "Bảng lương.")},
    )
    assert find_tools(ToolFilter(search=typed)).page.rows


@pytest.mark.django_db
def test_forms_and_calls_are_brought_to_one_spelling(wages, client, user_with):
    user = user_with("expert")
    rule = {"tool_name": READ, "confusables": [OLD], "rule_text": f"Ab 2024 gilt {READ}, früher {OLD}."}
    found = client.post(
        "/api/v1/rules/check",
        json.dumps(nfd(rule)),
        content_type="application/json",
        HTTP_AUTHORIZATION=f"Token {token_of(user)}",
    )
    assert found.status_code == 200 and "not in the catalog" not in found.content.decode()
    client.force_login(user)
    assert READ in client.get("/catalog/", {"q": unicodedata.normalize("NFD", "Löhne")}).content.decode()


PERSONAL = [
    ("Show the payslip of Maria Gonzalez", "Maria Gonzalez"),
    ("Transfer it to IBAN DE89 3704 0044 0532 0130 00 today", "3704"),
    ("Call the person back at +49 170 1234567", "1234567"),
    ("Send the payslip to maria.g@example.org now", "maria.g"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("text", "personal"), PERSONAL)
def test_samples_are_scrubbed_as_queries_are(wages, tmp_path, text, personal):
    write_jsonl(tmp_path / "samples.jsonl", [{"query": text, "tools": [READ]}])
    counts = samples_import(path=tmp_path / "samples.jsonl", approve=True)
    assert (counts.imported, counts.scrubbed) == (1, 1)
    sample, query = Sample.objects.get(), LabelledQuery.objects.get()
    assert personal not in f"{sample.query} {sample.made_from} {query.text}" and sample.answer == [READ]
    assert sample.query == queries_preview(read_queries(text))[0].text and query.extra["replaced"]
    assert samples_import(path=tmp_path / "samples.jsonl").unchanged == 1


@pytest.mark.django_db
def test_the_sample_of_the_case_keeps_its_tools_and_nothing_personal(wages, tmp_path, capsys):
    query = "Show the payslip of Maria Gonzalez, IBAN DE89 3704 0044 0532 0130 00, phone +49 170 1234567"
    write_jsonl(tmp_path / "samples.jsonl", [{"query": query, "tools": [READ]}])
    call_command("samples_import", str(tmp_path / "samples.jsonl"))
    assert "personal data were replaced in 1" in capsys.readouterr().out
    assert Sample.objects.get().query == "Show the payslip of [name], IBAN [IBAN], phone [phone]"


@pytest.mark.django_db
@pytest.mark.parametrize(("text", "personal"), PERSONAL)
def test_a_benchmark_is_asked_as_it_is_typed_and_keeps_its_requests_out(wages, tmp_path, text, personal):
    write_jsonl(tmp_path / "rows.jsonl", [{"query": text, "tools": [READ]}])
    benchmark, _ = benchmark_import(path=tmp_path / "rows.jsonl", kind="prb", name="held")
    assert personal in benchmark.items.get().data["query"] == text
    assert [one.code for one in queries_preview(read_queries(text))] == ["benchmark"]
    assert benchmark_firewall().check(text)
    write_jsonl(tmp_path / "more.jsonl", [{"query": "Something quite different, thank you", "tools": [READ]}])
    (tmp_path / "all.jsonl").write_text(
        (tmp_path / "rows.jsonl").read_text() + (tmp_path / "more.jsonl").read_text()
    )
    assert samples_import(path=tmp_path / "all.jsonl").contaminated == 1
