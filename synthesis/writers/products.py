"""Products as people name them: of `AdyenManagementV3/...` they say `Adyen`, or `Adyen's management v3`."""

import random
import re
from collections.abc import Sequence

from synthesis.core.queries import ToolText
from synthesis.core.words import content_stems, spaced, words

_ORDINARY_WORDS = (
    "payroll people work workforce time absence benefit benefits talent reward comp ledger close consol invoice "
    "payables pay payments bill billing cash receivables trip expense asset rate rates treasury fx plan budget "
    "procure supplier vendor entity open bank tax hire learn shift team staff core "
    "account cards data file store stock order"
)
TWO_HUMPS = ("CyberSource", "MercadoPago", "KillBill", "HiBob", "PayPal", "SumUp", "BambooHr", "InvoiceNinja",
    "OpenBanking")  # fmt: skip
# vendors with several products: `AdyenManagementV3` is Adyen's management; other names are one piece (`SourcingOne`)
_VENDORS = """Adyen Alpaca Apideck Aws Azure Cds Chargebee Codat Dwolla Fireblocks Google Gusto Hmrc Lago Lithic Marqeta
    Mastercard Merge Mollie Mx Personio Plaid Recurly Square Stripe Taxamo Unit Xero"""
VENDORS = frozenset(_VENDORS.split())
SPELLED = {
    "Aws": "AWS",
    "Mx": "MX",
    "Hmrc": "HMRC",
    "Cds": "CDS",
    "OpenBanking": "Open Banking",
    "BambooHr": "BambooHR",
}
ORDINARY = frozenset(_ORDINARY_WORDS.split())


def placed(text: str, anchor: ToolText, twins: Sequence[ToolText], rng: random.Random) -> str:
    """Say the product, and its version where a twin differs in nothing else."""
    vendor, line, version = product(anchor.api)
    same = [tool for tool in twins if product(tool.api) == (vendor, line, version)]
    theirs = {word for tool in same for word in words(tool.endpoint)}
    said = content_stems(text)
    own = [word for word in words(anchor.endpoint) if word not in theirs and not content_stems(word) & said]
    if same and own:
        text = f"{text}, {' '.join(list(dict.fromkeys(own))[:3])}"
    if spaced(vendor) == spaced(anchor.api) and len(words(vendor)) > 1:
        return text  # product and thing together would be the tool's name
    others = [product(tool.api) for tool in twins]
    place = vendor if all(other[0] != vendor for other in others) else in_line(vendor, line)
    if any(other[:2] == (vendor, line) for other in others):
        place = f"{in_line(vendor, line)} {version}".strip()
    return rng.choice(
        (
            f"{text} in {place}",
            f"{text}, {place}",
            f"{place}: {text}",
            f"{text} on {place}",
            f"{text} ({place})",
        )
    )


def in_line(vendor: str, line: str) -> str:
    """`Adyen` and `management` -> `Adyen's management`."""
    spelled = SPELLED.get(vendor, vendor)
    return f"{spelled}'s {line}" if line else spelled


def product(api: str) -> tuple[str, str, str]:
    """`AdyenManagementV3` -> (Adyen, management, v3)."""
    name, version = re.fullmatch(r"(.*?)(?:V(\d+))?", api).groups()  # type: ignore[union-attr]
    vendor = next((known for known in TWO_HUMPS if name.startswith(known)), "")
    humps = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", name.removeprefix(vendor))
    if not vendor:
        vendor, humps = (humps[0], humps[1:]) if humps[0] in VENDORS else (name, [])
    return (
        vendor,
        re.sub(r"\b(?:uk|us|eu|au|vat|sdk)\b", lambda m: m[0].upper(), " ".join(humps).lower()),
        f"v{version}" if version else "",
    )


def with_vendor(text: str, tool: ToolText, rng: random.Random) -> str:
    """The product an employee would name, when its name is not an ordinary word of the description."""
    vendor = product(tool.api)[0]
    if spaced(vendor) == spaced(tool.api) and len(words(vendor)) > 1:
        return text  # product and thing together would be the tool's name
    if (
        len(vendor) < 4
        or not vendor[0].isupper()
        or vendor.casefold() in spaced(text)
        or vendor.casefold() in ORDINARY
    ):
        return text
    return rng.choice(
        (f"{text} in {vendor}", f"{text}, {vendor}", f"{vendor}: {text}", f"{text} on {vendor}")
    )
