"""Which addresses the bench asks for: every list, search and filter, with many different values where it has any."""

from collections.abc import Callable, Iterator
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse

from catalog.models import CatalogImport, Cluster, Domain, Tool
from rules.models import ChangeRequest, Rule
from synthesis.models import Sample

Address = Callable[[int], str]
PAGE = 50
ONE_WORD = "payroll salary payslip invoice label ticket supplier version employee history draft refund"
PREFIXES = "pa pay pays in inv ship cust rost tic ven emb kes"
TWO_WORDS = [
    "payslip batch",
    "cancel transfer",
    "search vendor",
    "update label",
    "nova payroll",
    "list outage",
]
THREE_WORDS = ["get payslip history", "create purchase order", "cancel shift draft", "export fee country"]
INNER = "ayslip nvoice andida argebac sponib estrel"
MISSPELT = "paysilp invioce shipmnet suplier recieved certifcate"


def pages() -> Iterator[tuple[str, Address]]:
    """(title, address of the n-th request)."""
    yield from _catalog()
    yield from _tool_pages()
    yield from _rules()
    yield from _others()
    yield from _api()


def turn(values: list[str]) -> Callable[[int], str]:
    return lambda number: values[number % len(values)] if values else ""


def asking(path: str, **query: str | Callable[[int], str]) -> Address:
    """An address whose query changes with the number of the request."""

    def address(number: int) -> str:
        pairs = {key: value(number) if callable(value) else value for key, value in query.items()}
        return f"{path}?{urlencode(pairs)}" if pairs else path

    return address


def _catalog() -> Iterator[tuple[str, Address]]:
    path = reverse("catalog:list")
    domains = turn(list(Domain.objects.values_list("slug", flat=True)))
    apis = turn(list(Tool.objects.order_by("api").values_list("api", flat=True).distinct()[::30]))
    far = turn(
        list(Tool.objects.order_by("name").values_list("name", flat=True)[499 * PAGE - 50 : 499 * PAGE])
    )
    families = turn([api.rpartition("V")[0] for api in Tool.objects.values_list("api", flat=True)[:50]])
    yield "catalog", asking(path)
    yield "catalog, page 500", asking(path, after=far)
    for title, words in (
        ("one word", ONE_WORD.split()),
        ("prefix", PREFIXES.split()),
        ("two words", TWO_WORDS),
        ("three words", THREE_WORDS),
        ("inside a word", INNER.split()),
        ("misspelt", MISSPELT.split()),
        ("no such word", ["qqzzxx", "zzyyqq", "xxqqww"]),
    ):
        yield f"catalog, search: {title}", asking(path, q=turn(words))
    yield "catalog, filter: domain", asking(path, domain=domains)
    yield "catalog, filter: API", asking(path, api=apis)
    yield "catalog, filter: API typed in part", asking(path, api=families)
    for state in ("current", "deprecated", "retired", "all"):
        yield f"catalog, filter: {state}", asking(path, state=state)
    for key in ("clustered", "ruled"):
        for value in ("yes", "no"):
            yield f"catalog, filter: {key} {value}", asking(path, **{key: value})
    yield (
        "catalog, every filter and a word",
        asking(path, q=turn(ONE_WORD.split()), domain=domains, state="current", clustered="yes", ruled="no"),
    )


def _tool_pages() -> Iterator[tuple[str, Address]]:
    tools = list(Tool.objects.order_by("content_hash").values_list("pk", flat=True)[:50])
    imports = list(CatalogImport.objects.values_list("pk", flat=True)[:50])
    yield "tool", lambda n: reverse("catalog:detail", args=[tools[n % len(tools)]])
    yield "tool, its rules", lambda n: reverse("rules:of_tool", args=[tools[n % len(tools)]])
    yield "tool, its samples", lambda n: reverse("synthesis:tool_samples", args=[tools[n % len(tools)]])
    yield "tool, its benchmark", lambda n: reverse("evaluation:tool_benchmark", args=[tools[n % len(tools)]])
    yield "imports", asking(reverse("catalog:imports"))
    yield "import", lambda n: reverse("catalog:import_detail", args=[imports[n % len(imports)]])
    yield (
        "import, what undo would do",
        lambda n: reverse("catalog:import_undo", args=[imports[n % len(imports)]]),
    )


def _rules() -> Iterator[tuple[str, Address]]:
    path = reverse("rules:list")
    domains = turn(list(Domain.objects.values_list("slug", flat=True)))
    rules = list(Rule.objects.order_by("-pk").values_list("pk", flat=True)[:50])
    yield "rules", asking(path)
    yield "rules, search", asking(path, q=turn(["payslip", "cancel label", "contract", "GET_PAY", "nova"]))
    yield "rules, filter: domain", asking(path, domain=domains)
    for state in ("draft", "published", "changed"):
        yield f"rules, filter: {state}", asking(path, state=state)
    for light in ("ok", "warning", "error"):
        yield f"rules, filter: {light}", asking(path, light=light)
    yield "rule", lambda n: reverse("rules:detail", args=[rules[n % len(rules)]])
    for name in ("rules:requests",):
        if path := _path(name):
            yield "change requests", asking(path)
            yield "change requests, in review", asking(path, state="in_review")
    requests = list(ChangeRequest.objects.values_list("pk", flat=True)[:50])
    if _path("rules:request", requests[0]):
        yield "change request", lambda n: reverse("rules:request", args=[requests[n % len(requests)]])


def _others() -> Iterator[tuple[str, Address]]:
    domains = turn(list(Domain.objects.values_list("slug", flat=True)))
    clusters = list(Cluster.objects.values_list("pk", flat=True)[:50])
    samples = list(Sample.objects.values_list("pk", flat=True)[:50])
    yield "clusters", asking(reverse("clusters"), domain=domains)
    yield "clusters without a rule", asking(reverse("clusters"), domain=domains, state="no_rule")
    yield "clusters, page 20", asking(reverse("clusters"), domain=domains, after="950")
    yield "cluster", lambda n: reverse("cluster", args=[clusters[n % len(clusters)]])
    yield "samples", asking(reverse("synthesis:samples"))
    yield "samples, filter: to review", asking(reverse("synthesis:samples"), human="pending", machine="ready")
    yield (
        "samples, filter: domain, style",
        asking(reverse("synthesis:samples"), domain=domains, style="implicit"),
    )
    yield "sample", lambda n: reverse("synthesis:sample", args=[samples[n % len(samples)]])
    waiting = list(Sample.objects.filter(machine="ready", human="pending").values_list("pk", flat=True)[:50])
    yield "review", lambda n: reverse("synthesis:review_item", args=[waiting[n % len(waiting)]])
    yield "jobs", asking(reverse("jobs:list"))
    yield "jobs, filter: failed", asking(reverse("jobs:list"), state="failed")
    yield "audit", asking(reverse("audit"))
    yield "audit, filter: action", asking(reverse("audit"), action=turn(["rule.saved", "rule.published"]))
    yield (
        "audit, filter: object",
        asking(reverse("audit"), object_type="rule", object_id=turn(["17", "4000", "none"])),
    )


def _api() -> Iterator[tuple[str, Address]]:
    tools = list(Tool.objects.order_by("content_hash").values_list("pk", flat=True)[:50])
    for name, query in (
        ("api-tools", {}),
        ("api-tools", {"q": turn(ONE_WORD.split())}),
        ("api-tools", {"state": "deprecated"}),
        ("api-clusters", {}),
        ("api-imports", {}),
        ("api-domains", {}),
        ("api-rules", {}),
        ("api-rules", {"q": turn(["payslip", "contract"])}),
        ("api-requests", {}),
        ("api-audit", {}),
    ):
        if path := _path(name):
            yield f"{path} {'?' + ' '.join(query) if query else ''}", asking(path, **query)
    for name in ("api-tool", "api-tool-neighbours", "api-tool-twins", "api-tool-revisions"):
        if _path(name, 1):
            yield f"{_path(name, 1)}", lambda n, name=name: reverse(name, args=[tools[n % len(tools)]])


def _path(name: str, *args: int) -> str:
    """Empty for a page that this build does not have."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""
