"""OData v2 to v4 `$metadata`: one tool per operation that the metadata allows.

An entity set gives Get, Get...ByKey, Create, Update and Delete (and Upsert where it is declared), less what
sap:creatable, sap:updatable, sap:deletable and sap:addressable or the Capabilities annotations forbid. A singleton
gives Get and Update. Function and action imports and bound functions and actions give one tool each.
API = namespace of the service, else the name of the file where the namespace says nothing.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from catalog.core.importers.detect import refusal
from catalog.core.importers.edmx import Node
from catalog.core.importers.rows import Row, unique_names
from catalog.core.importers.wording import describe, file_api_name, says_deprecated, sentence
from catalog.core.words import camel_case, name_words

# What OData metadata says about its elements: types with their keys, annotations by target, words and flags.


MAX_BASES = 50


class Metadata:
    """The schemas of one file, with aliases resolved and annotations by target."""

    def __init__(self, root: Node, shown: str) -> None:
        holders = [root, *root.all("DataServices")]
        self.shown = shown
        self.schemas = [root] if root.tag == "Schema" else [s for h in holders for s in h.all("Schema")]
        self.aliases = {s.get("Alias"): s.get("Namespace") for s in self.schemas if s.get("Alias")}
        self.types: dict[str, Node] = {}
        self.annotations: dict[str, list[Node]] = defaultdict(list)
        self.callables: dict[str, list[Node]] = defaultdict(list)
        for schema in self.schemas:
            for node in schema.children:
                full = f"{schema.get('Namespace')}.{node.get('Name')}"
                if node.tag == "EntityType":
                    self.types[full] = node
                elif node.tag in {"Function", "Action"}:
                    self.callables[full].append(node)
                elif node.tag == "Annotations":
                    self.annotations[self.full(node.get("Target"))] += node.all("Annotation")

    def full(self, name: str) -> str:
        """A qualified name with its alias written out."""
        prefix, dot, rest = name.partition("/")[0].rpartition(".")
        slash, tail = ("/", name.partition("/")[2]) if "/" in name else ("", "")
        return f"{self.aliases.get(prefix, prefix)}{dot}{rest}{slash}{tail}"

    def terms(self, node: Node, target: str) -> dict[str, Node]:
        """Annotations of an element, inline or by target, under the last part of their term."""
        found = [*node.all("Annotation"), *self.annotations.get(target, [])]
        return {annotation.get("Term").rpartition(".")[2]: annotation for annotation in found}

    def keys(self, type_name: str) -> list[str]:
        for _ in range(MAX_BASES):
            node = self.types.get(self.full(type_name))
            if node is None:
                break
            if key := node.first("Key"):
                return [ref.get("Name") for ref in key.all("PropertyRef")]
            type_name = node.get("BaseType")
        return []


def record_value(annotation: Node | None, name: str) -> Node | None:
    """One value of the record inside an annotation or property."""
    record = annotation.first("Record") if annotation else None
    return next((node for node in (record.children if record else []) if node.get("Property") == name), None)


def flag(annotation: Node | None, name: str) -> bool | None:
    value = record_value(annotation, name)
    if value is None:
        return None
    inner = value.first("Bool")
    text = (value.get("Bool") or (inner.text.strip() if inner else "")).lower()
    return {"true": True, "false": False}.get(text)


def texts(node: Node, terms: dict[str, Node]) -> str:
    documentation = node.first("Documentation")
    parts = [child.text for tag in ("Summary", "LongDescription") for child in _under(documentation, tag)]
    parts += [
        node.get("quickinfo"),
        *(string(terms.get(term)) for term in ("Description", "LongDescription")),
    ]
    parts = [*dict.fromkeys(" ".join(part.split()) for part in parts if part.strip())]
    return describe(parts[0], " ".join(parts[1:])) if parts else ""


def _under(node: Node | None, tag: str) -> list[Node]:
    return node.all(tag) if node else []


def string(annotation: Node | None) -> str:
    if annotation is None:
        return ""
    inner = annotation.first("String")
    return annotation.get("String") or (inner.text.strip() if inner else "")


def tags(node: Node) -> list[str]:
    """SuccessFactors says by tags what area an entity belongs to."""
    return [
        tag.text.strip()
        for d in _under(node, "Documentation")
        for c in d.all("tagcollection")
        for tag in c.all("tag")
    ]


def is_deprecated(terms: dict[str, Node]) -> bool:
    """An entry `Deprecated` among the revisions of the element."""
    waiting = [terms["Revisions"]] if "Revisions" in terms else []
    while waiting:
        node = waiting.pop()
        kind = node.get("EnumMember") or (node.text if node.tag == "EnumMember" else "")
        if kind.rpartition("/")[2].strip() == "Deprecated":
            return True
        waiting += node.children
    return False


# namespaces that are the same for every service of a vendor
EMPTY_WORDS = {
    "sf",
    "sfo",
    "data",
    "set",
    "odata",
    "default",
    "container",
    "service",
    "services",
    "model",
    "models",
}
EMPTY_WORDS |= {"entities", "entity", "ns", "schema", "edm", "metadata", "context", "srv", "api"}


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing to do with an entity set. `sap` is the attribute, `term` and `flag` the annotation that forbids it."""

    endpoint: str
    sap: str
    term: str
    flag: str
    of_set: str
    of_singleton: str = ""

    def lead(self, tag: str) -> str:
        return self.of_singleton if tag == "Singleton" else self.of_set


READ, UPDATE = ("ReadRestrictions", "Readable"), ("UpdateRestrictions", "Updatable")
VERBS = (
    Verb("Get{}", "addressable", *READ, "Query the entity set {}.", "Read {}."),
    Verb("Get{}ByKey", "addressable", *READ, "Read one entity of {} by its key{}."),
    Verb("Create{}", "creatable", "InsertRestrictions", "Insertable", "Create an entity in {}."),
    Verb("Update{}", "updatable", *UPDATE, "Update an entity of {} by its key{}.", "Update {}."),
    Verb("Upsert{}", "upsertable", "", "", "Create or update an entity of {} by its key{}."),
    Verb("Delete{}", "deletable", "DeleteRestrictions", "Deletable", "Delete an entity of {} by its key{}."),
)


@dataclass(slots=True)
class Found:
    """A tool before it has its name."""

    where: str
    endpoints: list[str]
    description: str
    permissions: list[str]
    deprecated: bool = False


def read(root: Node, shown: str) -> Iterator[Row]:
    """Every operation of the service; places are target paths such as `#/Namespace.Container/EntitySet`."""
    metadata = Metadata(root, shown)
    containers = [(s, c) for s in metadata.schemas for c in s.all("EntityContainer")]
    if not containers:
        hint = "Ask the server for its whole $metadata."
        raise refusal(shown, "the metadata has no entity container, so it holds no tools.", hint)
    schema = next((s for s, c in containers if c.get("IsDefaultEntityContainer") == "true"), containers[0][0])
    api, version = api_name(schema, shown), schema.get("schema-version")
    found: list[Found] = []
    for entry in _entries(metadata, containers):
        if isinstance(entry, Row):
            yield entry
        else:
            found.append(entry)
    for tool, endpoint in zip(found, unique_names([one.endpoints for one in found]), strict=True):
        fields = {"name": f"{api}/{endpoint}", "description": tool.description, "version": version}
        yield Row(tool.where, fields | {"permissions": tool.permissions, "deprecated": tool.deprecated})


def api_name(schema: Node, shown: str) -> str:
    namespace = re.sub(r"^com\.sap\.gateway\.\w+\.", "", schema.get("Namespace"))
    namespace, _, revision = (
        namespace.rpartition(".") if re.search(r"\.v\d+$", namespace) else (namespace, "", "")
    )
    says = set(name_words(namespace)) - EMPTY_WORDS
    name = camel_case(namespace if says else "") or file_api_name(shown) or camel_case(namespace)
    if not name:
        hint = "Name the file after the service."
        raise refusal(shown, "neither the metadata nor the file name says which service this is.", hint)
    return f"{name}V{int(revision[1:])}" if revision else name


def _entries(metadata: Metadata, containers: list[tuple[Node, Node]]) -> Iterator[Found | Row]:
    """Imports first: they keep the names their vendor gave them."""
    imported: set[str] = set()
    places = [(f"{s.get('Namespace')}.{c.get('Name')}", c) for s, c in containers]
    for place, container in places:
        for node in container.all("FunctionImport", "ActionImport"):
            called = metadata.full(node.get("Function") or node.get("Action"))
            imported.add(called)
            yield _import(metadata, node, f"{place}/{node.get('Name')}", metadata.callables.get(called, []))
    for place, container in places:
        for node in container.all("EntitySet", "Singleton"):
            yield from _entity_set(metadata, node, f"{place}/{node.get('Name')}")
    yield from _callables(metadata, imported)


def _entity_set(metadata: Metadata, node: Node, target: str) -> Iterator[Found | Row]:
    name, where = node.get("Name"), f"{metadata.shown}#/{target}"
    type_name = metadata.full(node.get("EntityType") or node.get("Type"))
    kind = metadata.types.get(type_name, Node("", {}))
    terms, kind_terms = metadata.terms(node, target), metadata.terms(kind, type_name)
    verbs = [verb for verb in VERBS if _allowed(verb, node, terms)]
    if not name or not verbs:
        note = "the metadata allows nothing here directly; it is reached through other entities."
        yield Row(where, note=note) if name else Row(where, problem="the entity set has no name.")
    about = texts(node, terms) or texts(kind, kind_terms)
    about = "" if about.rstrip(".") == name else about.removeprefix(f"{name}. ")
    label = (
        node.get("label")
        or string(terms.get("Label"))
        or kind.get("label")
        or string(kind_terms.get("Label"))
    )
    title = f"{name} ({label})" if label and label.replace(" ", "").casefold() != name.casefold() else name
    keys = ", ".join(metadata.keys(type_name))
    dead = is_deprecated(terms) or is_deprecated(kind_terms) or says_deprecated(about)
    for verb in verbs if name else ():
        lead = verb.lead(node.tag).format(title, f" ({keys})" if keys else "")
        endpoints = [verb.endpoint.format(name[0].upper() + name[1:]), f"{name}.{verb.endpoint.format('')}"]
        yield Found(where, endpoints, describe(lead, about), tags(node) or tags(kind), dead)


def _allowed(verb: Verb, node: Node, terms: dict[str, Node]) -> bool:
    stated = node.get(verb.sap).lower()
    if not verb.lead(node.tag) or stated == "false" or (verb.sap == "upsertable" and stated != "true"):
        return False
    restrictions = terms.get(verb.term)
    allowed = flag(restrictions, verb.flag)
    if verb.endpoint == "Get{}ByKey":
        by_key = flag(record_value(restrictions, "ReadByKeyRestrictions"), verb.flag)
        allowed = allowed if by_key is None else by_key
    return allowed is not False


def _import(metadata: Metadata, node: Node, target: str, called: list[Node]) -> Found | Row:
    name = node.get("Name")
    if not name:
        return Row(f"{metadata.shown}#/{target}", problem="the import has no name.")
    source = called[0] if called else node
    terms = metadata.terms(node, target) | metadata.terms(
        source, metadata.full(node.get("Function") or node.get("Action"))
    )
    about = texts(node, terms) or texts(source, terms) or node.get("label")
    method = node.get("HttpMethod") or ("POST" if node.tag == "ActionImport" else "GET")
    parameters = ", ".join(
        parameter.get("Name") for parameter in (source.all("Parameter") or node.all("Parameter"))
    )
    lead = f"{sentence(name)} ({method}{f', with {parameters}' if parameters else ''})."
    dead = is_deprecated(terms) or says_deprecated(about)
    return Found(f"{metadata.shown}#/{target}", [name, f"{method}{name}"], about or lead, tags(node), dead)


def _callables(metadata: Metadata, imported: set[str]) -> Iterator[Found | Row]:
    """Functions and actions bound to a type; unbound ones can only be called through an import."""
    for full, nodes in metadata.callables.items():
        for node in nodes:
            where = f"{metadata.shown}#/{full}"
            parameters = node.all("Parameter")
            if node.get("IsBound").lower() == "true" and parameters:
                yield _bound(metadata, node, full, parameters)
            elif full not in imported:
                yield Row(where, note="not imported into the container, so nothing can call it.")


def _bound(metadata: Metadata, node: Node, full: str, parameters: list[Node]) -> Found:
    bound = parameters[0].get("Type")
    inner = re.sub(r"^Collection\((.*)\)$", r"\1", bound)
    owner = inner.rpartition(".")[2] + ("Collection" if inner != bound else "")
    rest = ", ".join(parameter.get("Name") for parameter in parameters[1:])
    terms = metadata.terms(node, full)
    about = texts(node, terms)
    lead = f"{sentence(node.get('Name'))} of {owner}{f', with {rest}' if rest else ''} ({node.tag.lower()})."
    endpoint = f"{owner}.{node.get('Name')}"
    dead = is_deprecated(terms) or says_deprecated(about)
    return Found(f"{metadata.shown}#/{full}", [endpoint, f"{endpoint}({rest})"], about or lead, [], dead)
