"""Reading blind: the sheet gives nothing away, the key opens it, and a filled sheet is scored."""

import csv
import io
import json

import pytest
from django.core.management import CommandError, call_command

from synthesis.core.blind import BlindReading, score, share, sheet, without_end
from synthesis.management.commands.synthesis_blind import blind_readings
from tests.synthesis.rows import make_book, make_sample
from tests.synthesis.texts import TRACE

READINGS = [
    BlindReading(n, "rule explicit" if n % 2 else "rrb easy", f"request {n}", f"text {n}" if n % 2 else "",
            (("A/one", "first"), ("B/two", "second"), ("C/three", "third")), ("B/two",), f"Words of {n}. So B/two.")
    for n in range(8)
]  # fmt: skip


def filled(rows, key, **answers):
    """The rows as a reader who agrees with everything fills them in, but for `answers`."""
    for row in rows:
        known = key["rows"][f"{row['part']}-{row['number']}"]
        row |= {"natural": "yes", "which_tools": known["letters"]} if row["part"] == "1" else {}
        row |= {"leads_to": known["letters"]} if row["part"] == "2" else {}
        row |= {name: value for name, value in answers.items() if row[name]}
    return rows


def test_the_sheet_shows_no_answer_no_verdict_and_no_label():
    rows, key = sheet(READINGS, 1)
    text = json.dumps(rows)
    assert "So B/two" not in text
    assert not any(word in text for word in ("explicit", "easy", "rrb", "score", "ready", "verdict"))
    assert all(not row[name] for row in rows for name in ("natural", "which_tools", "leads_to"))
    assert {row["reasoning"] for row in rows if row["part"] == "1"} == {""}
    orders = [[row["request"] for row in rows if row["part"] == part] for part in "12"]
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    assert key["rows"]["1-1"]["letters"] == "B"


def test_the_same_seed_prints_the_same_sheet_and_another_one_another_order():
    assert sheet(READINGS, 1) == sheet(READINGS, 1)
    assert sheet(READINGS, 1)[0] != sheet(READINGS, 2)[0]


def test_full_agreement_scores_one_and_disagreement_is_counted_by_stratum():
    rows, key = sheet(READINGS, 3)
    found = score(filled(rows, key), key)
    assert {
        name: found[name]["all"]["share"] for name in ("natural", "which_tools", "leads_to")
    } == dict.fromkeys(("natural", "which_tools", "leads_to"), 1.0)
    rows, key = sheet(READINGS, 3)
    found = score(filled(rows, key, which_tools="A, C"), key)
    assert found["which_tools"]["rrb easy"]["agreed"] == 0
    assert found["which_tools"]["rrb easy"]["of"] == 4
    assert found["open"] == 0


def test_open_cells_are_counted_and_bad_cells_are_named():
    rows, key = sheet(READINGS, 3)
    assert score(rows, key)["open"] == 24
    for name, value, said in (
        ("natural", "perhaps", "neither yes nor no"),
        ("which_tools", "Z", "not letters"),
    ):
        rows, key = sheet(READINGS, 3)
        with pytest.raises(Exception, match=said):
            score(filled(rows, key, **{name: value}), key)
    with pytest.raises(Exception, match="not in the key"):
        score([{"part": "1", "number": "99", "natural": "yes"}], key)


def test_the_interval_is_wilsons():
    found = share([True] * 57 + [False] * 3)
    assert (round(found["low"], 3), round(found["high"], 3)) == (0.863, 0.983)
    assert share([True] * 10)["high"] == pytest.approx(1.0)


def test_the_last_sentence_is_cut_off_and_a_single_one_leaves_nothing():
    assert without_end(TRACE).endswith("it is PayOne/GetPayslip.")
    assert without_end("So A/one.") == ""


def test_a_cell_that_a_spreadsheet_would_run_is_quoted():
    rows, _ = sheet(
        [BlindReading(1, "s", "=1+1", "", (("A/one", "x"),), ("A/one",), "Because. So A/one.")], 0
    )
    assert rows[0]["request"][0] == "'"


@pytest.mark.django_db
def test_samples_are_taken_in_equal_shares_and_tools_hold_the_answer():
    version = make_book()
    for style in ("explicit", "implicit", "exception"):
        for _ in range(6):
            make_sample(version, style=style)
    for tier in ("easy", "medium"):
        make_sample(None, tier=tier)
    make_sample(version, machine="dropped")
    found = blind_readings(run=None, count=11, seed=5)
    strata = [reading.stratum for reading in found]
    assert {name: strata.count(name) for name in set(strata)} == {
        "rule explicit": 3, "rule implicit": 3, "rule exception": 3, "rrb easy": 1, "rrb medium": 1,
    }  # fmt: skip
    assert all(set(reading.answer) <= {name for name, _ in reading.tools} for reading in found)


@pytest.mark.django_db
def test_the_command_prints_a_sheet_and_scores_it_when_filled(tmp_path, capsys):
    version = make_book()
    for style in ("explicit", "exception"):
        make_sample(version, style=style)
    paths = {"sheet": tmp_path / "s.csv", "key": tmp_path / "k.json"}
    call_command("synthesis_blind", count=2, seed=1, **paths)
    text = paths["sheet"].read_text(encoding="utf-8-sig")
    rows = filled(list(csv.DictReader(io.StringIO(text, newline=""))), json.loads(paths["key"].read_text()))
    with paths["sheet"].open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    capsys.readouterr()
    call_command("synthesis_blind", score=[paths["sheet"], paths["key"]])
    assert "2 of   2  100.0% [34.2%, 100.0%]" in capsys.readouterr().out


@pytest.mark.django_db
def test_without_ready_samples_it_says_what_to_do(tmp_path):
    with pytest.raises(CommandError, match="Run synthesis_run first"):
        call_command("synthesis_blind", sheet=tmp_path / "s.csv", key=tmp_path / "k.json")
    assert not list(tmp_path.iterdir())
