"""The few word lists that comparing phrases needs: small words, synonyms, and words that exclude each other.

Synonyms stand on one line, the word they are counted as first. Alternatives stand on one line too: phrases that
differ in two of them speak of different cases however alike they are. Every word may be given in any form.
"""

_ARTICLES = "a an the please pls kindly any some this that these those it its his her their our my your"
ARTICLES = frozenset(_ARTICLES.split())
_AUXILIARIES = """is are was were be been being am do does did has have had can could may might shall should will
    would must need needs want wants let lets"""
_CONNECTIVES = """and or but if when whenever while where whether which who whom whose what how then than as so also
    use uses using used call calls just only always simply directly of for to in on at by with from into via through
    about per there here up out you i we they he she me us them one's in case i.e e.g eg ie whoever anyone
    everyone everybody someone somebody t s re ve ll d m"""
SMALL = ARTICLES | frozenset(_AUXILIARIES.split()) | frozenset(_CONNECTIVES.split())
NEGATIONS = frozenset(["not", "no", "never", "without", "cannot", "nor", "neither", "none", "nothing"])

SYNONYMS = (
    "read retrieve fetch show see view display obtain lookup look find get",
    "create add make register insert generate",
    "delete remove erase",
    "update change edit modify alter amend",
    "cancel void annul revoke",
    "send submit dispatch transmit",
    "refund reimburse",
    "list enumerate",
    "assign allocate",
    "assess estimate judge",
    "identifier id",
    "batch bulk",
    "adjustment correction",
    "start begin initiate launch commence",
    "stop halt end terminate",
    "buy purchase",
    "supplier vendor",
    "customer client buyer shopper",
    "employee worker staff",
    "company firm organisation",
    "bill invoice",
    "missing unavailable absent lacking unknown",
    "known available given present",
    "earlier prior previous before",
    "later after since",
    "detail information info data",
    "wrong incorrect",
    "sum amount",
    "several many multiple various",
    "all every each entire whole",
    "allow permit",
    "document paper",
    "single individual one",
)

ALTERNATIVES = (
    "create delete update read cancel send",
    "known missing",
    "before after during",
    "first last next",
    "second minute hour day week month quarter year",
    "hourly daily weekly monthly quarterly yearly annual",
    "single all several batch bulk",
    "new existing old former current",
    "draft final finalized sent paid unpaid pending captured settled approved",
    "open closed locked",
    "soft hard",
    "internal external",
    "domestic foreign international abroad",
    "inbound outbound incoming outgoing",
    "credit debit",
    "buy sell",
    "customer supplier employee",
    "permanent temporary contingent",
    "full partial",
    "manual automatic",
    "live cached test",
    "active inactive suspended",
    "attach detach",
    "enable disable",
    "increase decrease",
    "start stop",
    "accept reject decline",
    "online offline",
    "personal business",
    "public private",
    "classic newer",
    "planned unplanned",
    "more less fewer",
    "above below",
    "europe africa america americas asia",
)
