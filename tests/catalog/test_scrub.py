"""The scrubber: nothing planted survives in any of its formats, and ordinary requests stay as they are.

All people, numbers and addresses are made up here or are the specimen numbers of the libraries.
"""

import json
import string

import phonenumbers
import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from phonenumbers import PhoneNumberFormat, PhoneNumberType
from stdnum import luhn

from catalog.core.scrubbing.identities import LENGTHS
from catalog.core.scrubbing.scrub import scrub

CARRIERS = (
    "{}",
    "please update {} in my profile",
    "new one is {}, thanks",
    "change it to {}.",
    "({}) is what the letter says",
    "from march on use {}; the old one is closed",
    "is '{}' right?",
)
carriers = st.sampled_from(CARRIERS)


def gone(secret: str, carrier: str, stand_in: str) -> None:
    done = scrub(carrier.format(secret))
    assert stand_in in done.text, done
    letters = [part for part in secret.replace("-", " ").split() if len(part) > 3]
    assert not [part for part in letters if part in done.text], done
    assert scrub(done.text).text == done.text, "a scrubbed text has nothing left to scrub"


local = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12)
locals_ = st.one_of(local, st.tuples(local, st.sampled_from("._-+"), local).map("".join))
hosts = st.tuples(
    st.text(string.ascii_lowercase, min_size=1, max_size=10),
    st.sampled_from(["com", "co.uk", "de", "io", "museum", "xn--p1ai.example", "example.org"]),
).map(".".join)


@given(
    locals_,
    hosts,
    st.sampled_from(
        [
            "{}@{}",
            "{}@{}",
            "<{}@{}>",
            "mailto:{}@{}",
            "{} @ {}",
            "{}(at){}",
            "{} [at] {}",
            "{} (AT) {}",
            "{}＠{}",
        ]
    ),
    carriers,
)
@examples(max_examples=150)
def test_no_email_survives(name, host, form, carrier):
    done = scrub(carrier.format(form.format(name, host)))
    assert "[e-mail]" in done.text and host not in done.text, done


@pytest.mark.parametrize(
    "text",
    [
        "dana at example dot com",
        "dana.r [at] example [dot] com",
        "dana(at)mail(dot)example(dot)org",
        "dana{at}example{dot}com",
        "d@localhost",
        "DANA@EXAMPLE.COM",
        "d.o'neil@example.com",
        '"dana r"@example.com',
        "müller@exämple.de",
    ],
)
def test_emails_in_disguise_are_found(text):
    assert "[e-mail]" in scrub(f"write to {text} please").text


def iban(country: str, digits: str) -> str:
    """A made-up IBAN with the right check digits."""
    number = "".join(str(int(letter, 36)) for letter in digits + country + "00")
    return f"{country}{98 - int(number) % 97:02d}{digits}"


@given(
    st.sampled_from(sorted(LENGTHS)),
    st.randoms(use_true_random=False),
    st.sampled_from(["", " ", "-", ".", "\u00a0", "  "]),
    st.booleans(),
    carriers,
)
@examples(max_examples=200)
def test_no_iban_survives(country, rng, separator, lower, carrier):
    whole = iban(country, "".join(rng.choice(string.digits) for _ in range(LENGTHS[country] - 4)))
    grouped = separator.join(whole[at : at + 4] for at in range(0, len(whole), 4))
    gone(grouped.lower() if lower else grouped, carrier, "[IBAN]")


@pytest.mark.parametrize(
    "mistyped", ["DE88 3704 0044 0532 0130 00", "GB82WEST12345698765433", "MT84MALT011000012345MTLCAST001S"]
)
def test_a_mistyped_or_lettered_iban_is_found_too(mistyped):
    gone(mistyped, "salary to {} from may", "[IBAN]")


@given(
    st.sampled_from(
        [
            ("4", 16),
            ("4", 13),
            ("51", 16),
            ("2221", 16),
            ("34", 15),
            ("37", 15),
            ("6011", 16),
            ("35", 16),
            ("30", 14),
            ("62", 19),
        ]
    ),
    st.randoms(use_true_random=False),
    st.sampled_from(["", " ", "-", ".", "\u00a0", "/", "  ", " - "]),
    carriers,
)
@examples(max_examples=200)
def test_no_card_number_survives(network, rng, separator, carrier):
    prefix, length = network
    body = prefix + "".join(rng.choice(string.digits) for _ in range(length - len(prefix) - 1))
    number = body + luhn.calc_check_digit(body)
    if len(set(number)) == 1:
        return
    sizes = [4, 6, 5] if length == 15 else [4] * 5
    groups, rest = [], number
    for size in sizes:
        groups, rest = [*groups, rest[:size]], rest[size:]
    gone(separator.join(group for group in groups if group), carrier, "[card]")


def test_a_card_beside_other_numbers_is_found():
    assert scrub("2 nights 12 4111 1111 1111 1111 12 26").text.count("[card]") == 1
    assert "4111" not in scrub("order 88213 card 4111-1111-1111-1111 cvv 123").text


KINDS = (PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE)
PHONES = [
    number
    for region in sorted(phonenumbers.SUPPORTED_REGIONS)
    for kind in KINDS
    if (number := phonenumbers.example_number_for_type(region, kind))
]


@pytest.mark.parametrize(
    "form", [PhoneNumberFormat.E164, PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.RFC3966]
)
@pytest.mark.parametrize("sentences", [1, pytest.param(len(CARRIERS), marks=pytest.mark.long)])
def test_no_international_phone_number_of_any_country_survives(form, sentences):
    left = []
    for at, number in enumerate(PHONES):
        said = phonenumbers.format_number(number, form)
        for carrier in [*CARRIERS, *CARRIERS][at % len(CARRIERS) :][:sentences]:
            done = scrub(carrier.format(said))
            if "[" not in done.text:
                left.append(done.plain)
    assert left == []


def test_no_national_phone_number_survives_where_the_text_calls_it_one():
    left = []
    for number in PHONES:
        said = phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL)
        if sum(letter.isdigit() for letter in said) >= 6:
            left += [
                t
                for t in (f"call me on {said}", f"my cell no is {said} now", f"Tel: {said}")
                if "[" not in scrub(t).text
            ]
    assert left == []


@pytest.mark.parametrize(
    "said",
    [
        "415-555-2671",
        "(415) 555-2671",
        "415.555.2671",
        "415 555 2671",
        "1-415-555-2671",
        "1 (415) 555 2671",
        "(415)555-2671",
        "4155552671",
        "+1 415 555 2671 ext. 12",
        "020 7946 0958",
        "0171 555 2091",
        "0171/5552091",
        "030 / 555 209 11",
        "(0)30 5552 0911",
        "06 12 34 56 78",
        "06.12.34.56.78",
        "0612345678",
        "079 555 12 12",
        "0049 171 5552091",
        "011 44 20 7946 0958",
        "612 34 56 78",
        "98765 43210",
        "(11) 96123-4567",
        "+49 (0)171 5552091",
        "00 33 6 12 34 56 78",
    ],
)
@pytest.mark.parametrize("carrier", CARRIERS[1:])
def test_phone_numbers_in_the_forms_people_write_are_found_without_being_announced(said, carrier):
    done = scrub(carrier.format(said))
    assert "[phone]" in done.text and not any(letter.isdigit() for letter in done.text), done


@pytest.mark.parametrize(
    "before",
    [
        "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 13 say",
        "between 01.02.2024, 03.04.2024, 05.06.2024 and 07.08.2024 use",
    ],
)
def test_a_phone_number_behind_many_other_numbers_is_found(before):
    done = scrub(f"{before} 612 34 56 78")
    assert done.text == f"{before} [phone]"


def test_of_very_many_numbers_no_digit_is_left():
    done = scrub(", ".join(f"98765 432{number}" for number in range(10, 25)))
    assert set(done.text) == set("[phone], "), done


@pytest.mark.parametrize(
    ("text", "stand_in"),
    [
        ("my ssn is 078-05-1120", "id number"),
        ("078 05 1120 is on the w2", "id number"),
        ("social security number 078051120 please", "id number"),
        ("NI number QQ 12 34 56 C", "id number"),
        ("codice fiscale RSSMRA85T10A562S", "id number"),
        ("dni 12345678Z for the form", "id number"),
        ("put X1234567L on the contract", "id number"),
        ("passport no. C01X00T47 expires", "id number"),
        ("cpf 390.533.447-05", "id number"),
        ("PESEL 44051401359 in the file", "id number"),
        ("tax id 36 574 261 809", "id number"),
        ("aadhaar 2341 2341 2346", "id number"),
        ("pan is ACUPA7085R", "id number"),
        ("driver's license D1234567 on file", "id number"),
        ("host 10.11.12.13 is down", "IP address"),
        ("from 2001:db8::ff00:42:8329 today", "IP address"),
        ("open https://dana:hunter2@files.example.com/x now", "link"),
        ("use https://example.com/x?access_token=abc123def", "link"),
        ("my password is Tr0ub4dor&3", "secret"),
        ("api key: sk-abcDEF1234567890abcd", "secret"),
        ("employee no. 40213 has no badge", "employee number"),
        ("emp 30881 feb slip", "employee number"),
        ("personnel number P-00471", "employee number"),
        ("badge #7781 lost", "employee number"),
        ("EMP-004512 is leaving", "employee number"),
        ("born 12.03.1987 in rome", "date of birth"),
        ("date of birth: 1987-03-12", "date of birth"),
        ("DOB 3/12/87 on the card", "date of birth"),
        ("birthday is March 12, 1987", "date of birth"),
        ("my kid was born on the 4th of July 2019", "date of birth"),
    ],
)
def test_ids_births_and_secrets_are_found(text, stand_in):
    done = scrub(text)
    assert f"[{stand_in}]" in done.text, done
    assert not any(letter.isdigit() for letter in done.text.replace("w2", "")), done


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("show Dana Ruiz her payslip", "show [name] her payslip"),
        ("maria gonzalez's leave in may", "[name]'s leave in may"),
        ("Gonzalez, Maria in HR", "[name] in HR"),
        ("what does Mr. Okonjo earn", "what does Mr. [name] earn"),
        ("Frau Dr. Weissbach wants a car", "Frau Dr. [name] wants a car"),
        ("transfer Johannes van der Berg to Ghent", "transfer [name] to Ghent"),
        ("hi, this is Tove Lindqvist from payroll", "hi, this is [name] from payroll"),
        ("payslip for tomas please", "payslip for [name] please"),
        ("José's expenses", "[name]'s expenses"),
        ("ladder safety: ahmed + jo, due in may", "ladder safety: [name] + jo, due in may"),
        ("jens' colleagues", "[name]' colleagues"),
        ("J. Smith got hired", "J. Smith got hired"),  # an initial is no given name: an editor sees it
        ("put Jean-Pierre Dupont on the list", "put [name] on the list"),
        ("PETER MILLER", "[name] MILLER"),  # Miller is a trade too
    ],
)
def test_names_of_people_are_found(text, safe):
    assert scrub(text).text == safe


@pytest.mark.parametrize(
    "text",
    [
        "approve invoice 4500012345 for 12,500.00 eur",
        "order 4500882351 line 10, qty 1200",
        "what changed on 2024-03-15 10:30",
        "from 01.02.2024 10:30 to 03.02.2024 18:00",
        "Q3 2024 vs Q3 2023 travel spend",
        "1,204.50 usd on 03/04/2024 please",
        "cost center 4410, account 600100, project 8812-3",
        "fiscal years 2023 2024 side by side",
        "budget 12 500 000 for 2025",
        "show the may and june totals",
        "mark it as paid",
        "will the bill be due in april",
        "grace period of the grant",
        "rose to 81000 eur in august",
        "frank comment on the draft",
        "2 @ 5.00 each",
        "meet at noon in room 5",
        "PO 4500017823 ok?",
        "12345678 units of item 90210-33",
        "leave from 5 jan to 9 jan",
        "look at booking.com prices",
        "sao paulo office rent",
        "move 250 000 from 4000 to 4100",
        "ratio 1:2:3 at 12:30:45",
        "version 2.3.4 of the form",
        "journal 100200300 is wrong",
        "employee review 2024",
        "staff 12 people on 2 shifts",
        "passport renewal for 2026",
        "Don't mark it, will you",
        "north carolina tax office",
        "the christmas carol evening",
        "the new password is not working",
        "Santa Clara warehouse, dock 4",
        "San Francisco to Paris, 2 nights",
        "who approves contracts above 100000",
    ],
)
def test_ordinary_requests_stay_as_they_are(text):
    assert scrub(text).text == text


def test_the_demo_benchmark_keeps_all_that_names_nobody():
    """Of 282 made-up office requests only those with a person, an employee number, a phone or an account change."""
    rows = (settings.BASE_DIR / "trace_site" / "demo" / "prb.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(row)["query"] for row in rows]
    found = {
        done.plain[one.start : one.end]: one.kind
        for text in texts
        for done in [scrub(text)]
        for one in done.found
    }
    others = {said: kind for said, kind in found.items() if kind != "name"}
    assert others == {
        "30881": "employee number",
        "11820": "employee number",
        "0171 555 209": "phone",
        "079 555 12 12": "phone",
        "BE71 0961 2345 6769": "IBAN",
    }
    assert 20 <= len(found) - len(others) <= 40


@given(st.text(max_size=200))
@examples(max_examples=150)
def test_any_text_scrubs_to_one_line_and_stays(text):
    done = scrub(text)
    assert "\n" not in done.text and "\0" not in done.text
    pieces, end = [], 0
    for one in done.found:
        assert end <= one.start < one.end <= len(done.plain)
        pieces, end = [*pieces, done.plain[end : one.start], one.stand_in], one.end
    assert "".join([*pieces, done.plain[end:]]) == done.text
