"""Pure objects for synthesis tests: one small tool group with a rule, and a clean candidate."""

from typing import Any

from synthesis.core.filters import Candidate, FilterContext
from synthesis.core.names import ToolNames, rule_codes
from synthesis.core.queries import Clause, QueryRequest, RuleText, ToolText

TOOLS = (
    ToolText("PayNova/GetPayslip", "Returns the payslip of a worker for one pay period.", ("payroll.read",)),
    ToolText(
        "PayOne/GetPayslip", "Gets the payslip of a worker for one pay period, as issued.", ("payroll.read",)
    ),
    ToolText("PayNova/GetPayslipLines", "Lists the earning lines of a payslip.", ("payroll.read",)),
    ToolText(
        "PayClassic/GetPayslip", "Gets the payslip of a worker (v1).", ("payroll.read",), deprecated=True
    ),
    ToolText("TimeDesk/SubmitLeave", "Submits a leave request for a worker.", ("time.write",)),
    ToolText("TimeDesk/SubmitLeave.v2", "Submits a leave request with an attachment.", ("time.write",)),
    ToolText("CarPool/BookCar", "Books a company car for a trip.", ("car.write",)),
    ToolText("Benefits/CreateElection", "Creates a benefit election for a worker.", ("benefits.write",)),
)
RULE = RuleText(
    code="PAYSLIP_PERIOD",
    version=1,
    target="PayNova/GetPayslip",
    confusables=("PayOne/GetPayslip", "PayNova/GetPayslipLines", "PayClassic/GetPayslip"),
    text="Payslips of 2024 or later are read with PayNova/GetPayslip, older ones with PayOne/GetPayslip.",
    clauses=(
        Clause(
            "the payslip is for a period in 2024 or later",
            "PayNova/GetPayslip",
            False,
            ("March 2024", "Q1 2025"),
        ),
        Clause(
            "the payslip is for a period before 2024",
            "PayOne/GetPayslip",
            True,
            ("November 2022", "back in 2020"),
        ),
        Clause(
            "one earning code is questioned",
            "PayNova/GetPayslipLines",
            True,
            ("wage type 4120", "parking deduction"),
        ),
    ),
    hash="h1",
    domain="hr",
)
TRACE = (
    "The request is the pay document of November 2022. PayNova and PayOne both hold payslips. PayNova/GetPayslip and "
    "PayOne/GetPayslip look alike. PAYSLIP_PERIOD decides: the payslip is for a period before 2024, so it is "
    "PayOne/GetPayslip. So PayOne/GetPayslip."
)


def context(**overrides: Any) -> FilterContext:
    fields: dict[str, Any] = {
        "names": ToolNames(tool.name for tool in TOOLS),
        "deprecated": frozenset(tool.name for tool in TOOLS if tool.deprecated),
        "codes": rule_codes([RULE.code, "LEAVE_ATTACHMENT"]),
    }
    return FilterContext(**{**fields, **overrides})


def candidate(**overrides: Any) -> Candidate:
    fields: dict[str, Any] = {
        "branch": "rule",
        "query": "i need my pay document from November 2022 for the tax office",
        "answer": ("PayOne/GetPayslip",),
        "pool": frozenset(tool.name for tool in TOOLS[:4]),
        "trace": TRACE,
        "style": "exception",
        "rule_code": RULE.code,
        "rule_tools": RULE.tools,
        "permission_tags": frozenset({"payroll.read"}),
    }
    return Candidate(**{**fields, **overrides})


def request(**overrides: Any) -> QueryRequest:
    fields: dict[str, Any] = {
        "branch": "rule",
        "domain": "hr",
        "pool": TOOLS,
        "seed": 7,
        "index": 0,
        "style": "explicit",
        "rule": RULE,
    }
    return QueryRequest(**{**fields, **overrides})
