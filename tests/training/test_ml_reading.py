"""What the pocket model does not read of a request: foreign scripts, unknown words, and what is too long."""

import pytest

pytest.importorskip("torch")

from transformers import AutoTokenizer  # noqa: E402

from catalog.ml.encoder import locate  # noqa: E402
from training.core.recipe import Pocket  # noqa: E402
from training.ml.bases.pocket import Reader  # noqa: E402

pytestmark = pytest.mark.ml


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(AutoTokenizer.from_pretrained(locate(Pocket().encoder)), 64)


@pytest.mark.parametrize(
    "request_text",
    [
        "I need my payslip for last November because the mortgage bank wants it",
        "show José Müller's reimbursements in the Zürich cost centre ZRH-0042, s'il vous plaît",
        "Book annual leave for Łukasz Wąsowski from 2024-05-03 to 05-10",
        "post the GR/IR clearing run via MIRO for PO 4500012345 in SAP S/4HANA, 12 % of € 1.250,00",
        "Ich brauche meine Gehaltsabrechnung für die Straße",  # another language in the same script is not found
        "pay &amp; leave 🙏 12",
    ],
)
def test_names_codes_and_accents_are_read(reader: Reader, request_text: str) -> None:
    assert reader.unread(request_text) == []


@pytest.mark.parametrize(
    ("request_text", "unread"),
    [
        ("我需要去年十一月的工资单", ["我需要去年十一月的工资单"]),
        ("show 工资单 for 王小明 now", ["工资单", "王小明"]),
        ("Мне нужна ведомость за May", ["Мне", "нужна", "ведомость", "за"]),
        ("أحتاج إلى كشف راتبي", ["أحتاج", "إلى", "كشف", "راتبي"]),
        ("मुझे वेतन पर्ची", ["मुझे", "वेतन", "पर्ची"]),
        ("先月の payslip を見せて", ["先月の", "を見せて"]),
        ("thanks🙏 for it", ["thanks🙏"]),  # the encoder knows it only as unknown
        ("[UNK] is typed", []),
    ],
)
def test_words_of_other_scripts_and_unknown_words_are_told(
    reader: Reader, request_text: str, unread: list[str]
) -> None:
    assert reader.unread(request_text) == unread


def test_a_request_is_cut_when_it_is_longer_than_the_model_reads(reader: Reader) -> None:
    fits = "pay " * (64 - len(reader.ids("")))
    for text, cut in ((fits, False), (fits + "slip", True), ("pay", False)):
        assert reader.is_cut(text) is cut and len(reader.ids(text)) <= 64


def test_a_request_never_becomes_control_tokens(reader: Reader) -> None:
    control = set(reader.words.all_special_ids)
    found = [number for number in reader.ids("[CLS] show [SEP] now [MASK][PAD]") if number in control]
    assert found == [number for number in reader.ids("hello") if number in control]
