"""OData v2 to v4 `$metadata` (EDMX): one tool per operation that the metadata allows.

An entity set gives Get, Get...ByKey, Create, Update and Delete (and Upsert where it is declared), less what
sap:creatable, sap:updatable, sap:deletable and sap:addressable or the Capabilities annotations forbid. A singleton
gives Get and Update. Function and action imports and bound functions and actions give one tool each.
API = namespace of the service, else the name of the file where the namespace says nothing.
Document types, entities and anything that would fetch are refused by defusedxml; depth is capped here.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from catalog.core.importers.documents import check_size, refusal
from catalog.core.importers.rows import (
    MADE,
    FileRow,
    describe,
    file_api_name,
    named,
    says_deprecated,
    sentence,
)
from catalog.core.words import camel_case, name_words
from trace_site.lib.errors import TraceError

MAX_DEPTH = 100
MAX_TEXT = 40_000
MAX_BASES = 50
# the elements that describe operations; others are dropped as they are read
KEPT = {"Edmx", "DataServices", "Schema", "EntityContainer", "EntitySet", "Singleton", "FunctionImport"}
KEPT |= {"ActionImport", "Function", "Action", "Parameter", "EntityType", "Key", "PropertyRef", "Annotations"}
KEPT |= {"Annotation", "Record", "PropertyValue", "Collection", "Bool", "String", "EnumMember"}
KEPT |= {"Documentation", "Summary", "LongDescription", "tagcollection", "tag"}
TERMS = {"InsertRestrictions", "UpdateRestrictions", "DeleteRestrictions", "ReadRestrictions", "Revisions"}
TEXTS = ("Description", "LongDescription", "QuickInfo")
TERMS |= {*TEXTS, "Label"}
OTHERS = {
    "definitions": ("a WSDL file", "List its operations as JSON lines, one tool a line."),
    "description": ("a WSDL file", "List its operations as JSON lines, one tool a line."),
    "application": ("a WADL file", "Convert it to OpenAPI 3."),
    "service": ("an OData service document", "Ask the server for $metadata."),
    "feed": ("an answer of an OData service", "Ask the server for $metadata."),
    "html": ("a web page", "Download the raw file instead of the page that shows it."),
}
HINT = "The XML that is read here is OData $metadata (EDMX)."
# namespaces that are the same for every service of a vendor
EMPTY_WORDS = {"sf", "sfo", "data", "set", "odata", "default", "container", "service", "services", "model"}
EMPTY_WORDS |= {"models", "entities", "entity", "ns", "schema", "edm", "metadata", "context", "srv", "api"}


@dataclass(slots=True)
class Node:
    """An element: local names of tag and attributes, without namespaces."""

    tag: str
    attributes: dict[str, str]
    children: list["Node"] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")

    def all(self, *tags: str) -> list["Node"]:
        return [child for child in self.children if child.tag in tags]

    def first(self, tag: str) -> "Node":
        """The first child of that tag, or an element with nothing in it."""
        return next((child for child in self.children if child.tag == tag), NOTHING)


NOTHING = Node("", {})


class EdmxBuilder:
    """What the parser calls; elements that describe no operation are counted for depth and dropped."""

    def __init__(self) -> None:
        self.open = [Node("", {})]
        self.depth = 0
        self.skipped_at = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"elements are nested deeper than {MAX_DEPTH} levels")
        if self.skipped_at:
            return
        name = tag.rpartition("}")[2]
        term = attributes.get("Term", "").rpartition(".")[2]
        if self.depth > 1 and (name not in KEPT or (name == "Annotation" and term not in TERMS)):
            self.skipped_at = self.depth
            return
        # an attribute of the element's own wins over one of another namespace
        ordered = sorted(attributes.items(), key=lambda pair: not pair[0].startswith("{"))
        node = Node(name, {key.rpartition("}")[2]: value for key, value in ordered})
        self.open[-1].children.append(node)
        self.open.append(node)

    def end(self, tag: str) -> None:
        if not self.skipped_at:
            self.open.pop()
        elif self.skipped_at == self.depth:
            self.skipped_at = 0
        self.depth -= 1

    def data(self, text: str) -> None:
        node = self.open[-1]
        if not self.skipped_at and len(node.text) < MAX_TEXT and not text.isspace():
            node.text += text

    def close(self) -> Node:
        return self.open[0].children[0]


def read_edmx(path: Path, shown: str) -> Node:
    """The root element; raises TraceError naming the line."""
    check_size(path, shown)
    parser: Any = DefusedXMLParser(target=EdmxBuilder(), forbid_dtd=True)

    def bad(where: str, reason: str, hint: str) -> TraceError:
        return TraceError(f"not valid XML ({reason}).", code="bad_xml", where=where, hint=hint)

    try:
        parser.feed(path.read_bytes())
        root: Node = parser.close()
    except DefusedXmlException as error:
        hint = "Take the <!DOCTYPE ...> out of the file; metadata needs none."
        raise bad(shown, "it declares a document type or entities, which are never read", hint) from error
    except ParseError as error:
        where, reason = f"{shown}:{error.position[0]}", str(error).split(":")[0]
        raise bad(where, reason, "Check that the file is complete.") from error
    except (ValueError, LookupError) as error:
        raise bad(shown, str(error)[:200], "Save the file as UTF-8 and check it.") from error
    if root.tag not in {"Edmx", "Schema"}:
        what, hint = OTHERS.get(root.tag, (f"an XML file of another kind (<{root.tag[:60]}>)", HINT))
        raise refusal(shown, f"this is {what}.", hint)
    return root


class Metadata:
    """The schemas of one file, with aliases resolved and annotations by target."""

    def __init__(self, root: Node, shown: str) -> None:
        holders = [root, *root.all("DataServices")]
        self.shown, self.version = shown, ""
        self.schemas = [root] if root.tag == "Schema" else [s for h in holders for s in h.all("Schema")]
        self.aliases = {s.get("Alias"): s.get("Namespace") for s in self.schemas if s.get("Alias")}
        self.types: dict[str, Node] = {}
        self.annotations: dict[str, list[Node]] = defaultdict(list)
        self.callables: dict[str, list[Node]] = defaultdict(list)
        self.containers: set[str] = set()
        self.used: set[str] = set()  # targets that were asked for
        for schema in self.schemas:
            for node in schema.children:
                full = f"{schema.get('Namespace')}.{node.get('Name')}"
                if node.tag == "EntityType":
                    self.types[full] = node
                elif node.tag == "EntityContainer":
                    self.containers.add(full)
                elif node.tag in {"Function", "Action"}:
                    self.callables[full].append(node)
                elif node.tag == "Annotations":
                    self.annotations[self.full(node.get("Target"))] += node.all("Annotation")
                    for one in node.all("Annotation"):
                        one.attributes.setdefault("Qualifier", node.get("Qualifier"))

    def full(self, name: str) -> str:
        """A qualified name, with the types of an overload after it or not, its aliases written out."""
        head, slash, tail = name.partition("/")
        alias = r"(?<![\w.])\w+(?=\.\w+(?![\w.]))"
        head = re.sub(alias, lambda found: self.aliases.get(found[0], found[0]), "".join(head.split()))
        return f"{head}{slash}{tail}"

    def terms(self, node: Node, *targets: str) -> dict[str, Node]:
        """Annotations of an element, inline or by its targets, under the last part of their term; the last target
        wins, and one without a qualifier over one with."""
        found = [
            *node.all("Annotation"),
            *(one for target in targets for one in self.annotations.get(target, [])),
        ]
        self.used.update(targets)
        found.sort(key=lambda annotation: not annotation.get("Qualifier"))
        return {annotation.get("Term").rpartition(".")[2]: annotation for annotation in found}

    def overload(self, node: Node, full: str) -> tuple[str, dict[str, Node]]:
        """The types of a function's or action's parameters, and its annotations: those of all its overloads, then its
        own, whose target holds all types, or that of the thing an action is bound to."""
        types = [self.full(parameter.get("Type")) for parameter in node.all("Parameter")]
        signatures = [types[:1], types] if node.tag == "Action" else [types]
        targets = [full, *(f"{full}({','.join(one)})" for one in signatures)]
        return ",".join(types), self.terms(node, *targets)

    def parameter_texts(self, parameters: list[Node], *targets: str) -> int:
        """How many parameters have a text of their own."""
        full = [[f"{target}/{one.get('Name')}" for target in targets] for one in parameters]
        known = [(one, self.terms(one, *names)) for one, names in zip(parameters, full, strict=True)]
        return sum(bool(about_of(*pair) or label_of(*pair)) for pair in known)

    def lost(self) -> Iterator[FileRow]:
        """A note for each text whose target is an overload, or a part of a container, that gives no tool."""
        for target, annotations in self.annotations.items():
            head, inside, _ = target.partition("/")
            known = self.containers if inside else self.callables if "(" in head else ()
            meant = target not in self.used and head.partition("(")[0] in known
            if meant and about_of(NOTHING, self.terms(Node("", {}, annotations))):
                note = "left out: nothing that gives a tool has this target; check its names and types."
                yield FileRow(f"{self.shown}#/{target}", note=note)

    def keys(self, type_name: str) -> list[str]:
        for _ in range(MAX_BASES):
            node = self.types.get(self.full(type_name), NOTHING)
            if node.all("Key"):
                return [ref.get("Name") for ref in node.first("Key").all("PropertyRef")]
            type_name = node.get("BaseType")
        return []


def stated(annotation: Node, kind: str) -> str:
    """The value of an annotation, an attribute or an element of its own: `String`, `Bool`."""
    return annotation.get(kind) or annotation.first(kind).text.strip()


def record_value(annotation: Node, name: str) -> Node:
    """One value of the record inside an annotation or property."""
    values = annotation.first("Record").children
    return next((node for node in values if node.get("Property") == name), NOTHING)


def about_of(node: Node, terms: dict[str, Node]) -> str:
    documentation = node.first("Documentation")
    parts = [child.text for tag in ("Summary", "LongDescription") for child in documentation.all(tag)]
    parts.append(node.get("quickinfo"))
    parts += [stated(terms.get(term, NOTHING), "String") for term in TEXTS]
    parts = [*dict.fromkeys(" ".join(part.split()) for part in parts if part.strip())]
    return describe(parts[0], " ".join(parts[1:])) if parts else ""


def label_of(node: Node, terms: dict[str, Node]) -> str:
    return node.get("label") or stated(terms.get("Label", NOTHING), "String")


def tags(node: Node) -> list[str]:
    """SuccessFactors says by tags what area an entity belongs to."""
    collections = node.first("Documentation").all("tagcollection")
    return [tag.text.strip() for collection in collections for tag in collection.all("tag")]


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


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing to do with an entity set. `sap` is the attribute, `term` and `flag` the annotation that forbids it."""

    endpoint: str
    sap: str
    term: str
    flag: str
    of_set: str
    of_singleton: str = ""

    def allowed(self, node: Node, terms: dict[str, Node]) -> bool:
        sap = node.get(self.sap).lower()
        if node.tag == "Singleton" and not self.of_singleton:
            return False
        if sap == "false" or (self.sap == "upsertable" and sap != "true"):
            return False
        restrictions = terms.get(self.term, NOTHING)
        said = stated(record_value(restrictions, self.flag), "Bool").lower()
        if self.endpoint == "Get{}ByKey":
            by_key = record_value(record_value(restrictions, "ReadByKeyRestrictions"), self.flag)
            said = said if (own := stated(by_key, "Bool").lower()) not in {"true", "false"} else own
        return said != "false"


READ, UPDATE = ("ReadRestrictions", "Readable"), ("UpdateRestrictions", "Updatable")
VERBS = (
    Verb("Get{}", "addressable", *READ, "Query the entity set {}.", "Read {}."),
    Verb("Get{}ByKey", "addressable", *READ, "Read one entity of {} by its key{}."),
    Verb("Create{}", "creatable", "InsertRestrictions", "Insertable", "Create an entity in {}."),
    Verb("Update{}", "updatable", *UPDATE, "Update an entity of {} by its key{}.", "Update {}."),
    Verb("Upsert{}", "upsertable", "", "", "Create or update an entity of {} by its key{}."),
    Verb("Delete{}", "deletable", "DeleteRestrictions", "Deletable", "Delete an entity of {} by its key{}."),
)


def read(root: Node, shown: str) -> Iterator[FileRow]:
    """Every operation of the service; places are target paths such as `#/Namespace.Container/EntitySet`."""
    metadata = Metadata(root, shown)
    containers = [(s, c) for s in metadata.schemas for c in s.all("EntityContainer")]
    if not containers:
        hint = "Ask the server for its whole $metadata."
        raise refusal(shown, "the metadata has no entity container, so it holds no tools.", hint)
    schema = next((s for s, c in containers if c.get("IsDefaultEntityContainer") == "true"), containers[0][0])
    metadata.version = schema.get("schema-version")
    places = [(f"{s.get('Namespace')}.{c.get('Name')}", c) for s, c in containers]
    yield from named(api_name(schema, shown), _operations(metadata, places))
    yield from metadata.lost()


def api_name(schema: Node, shown: str) -> str:
    namespace = re.sub(r"^com\.sap\.gateway\.\w+\.", "", schema.get("Namespace"))
    revision = ""
    if re.search(r"\.v\d+$", namespace):
        namespace, _, revision = namespace.rpartition(".")
    says = set(name_words(namespace)) - EMPTY_WORDS
    name = camel_case(namespace if says else "") or file_api_name(shown) or camel_case(namespace)
    if not name:
        hint = "Name the file after the service."
        raise refusal(shown, "neither the metadata nor the file name says which service this is.", hint)
    return f"{name}V{int(revision[1:])}" if revision else name


def _operations(metadata: Metadata, places: list[tuple[str, Node]]) -> Iterator[FileRow]:
    """Imports first: they keep the names their vendor gave them."""
    imported: set[str] = set()
    for place, container in places:
        for node in container.all("FunctionImport", "ActionImport"):
            imported.add(called := metadata.full(node.get("Function") or node.get("Action")))
            yield from _imports(metadata, node, f"{place}/{node.get('Name')}", called)
    for place, container in places:
        for node in container.all("EntitySet", "Singleton"):
            yield from _entity_set(metadata, node, f"{place}/{node.get('Name')}")
    # functions and actions bound to a type; unbound ones can only be called through an import
    for full, nodes in metadata.callables.items():
        for node in nodes:
            parameters = node.all("Parameter")
            if node.get("IsBound").lower() == "true" and parameters:
                yield _bound(metadata, node, full, parameters)
            elif full not in imported:
                note = "not imported into the container, so nothing can call it."
                yield FileRow(f"{metadata.shown}#/{full}", note=note)


def _tool(
    metadata: Metadata, where: str, names: list[str], lead: str, about: str, dead: bool, left: int, *tags: str
) -> FileRow:
    """`lead` is made from names; without a text `about` the tool says so."""
    fields: dict[str, Any] = {"permissions": list(tags), "version": metadata.version}
    fields |= {"description": describe(lead, about), "source": "" if about else MADE}
    fields["deprecated"] = dead or says_deprecated(about)
    return FileRow(where, endpoints=names, tell=lambda: fields, left=left)


def _entity_set(metadata: Metadata, node: Node, target: str) -> Iterator[FileRow]:
    name, where = node.get("Name"), f"{metadata.shown}#/{target}"
    type_name = metadata.full(node.get("EntityType") or node.get("Type"))
    kind = metadata.types.get(type_name, NOTHING)
    terms, kind_terms = metadata.terms(node, target), metadata.terms(kind, type_name)
    verbs = [verb for verb in VERBS if verb.allowed(node, terms)]
    if not name:
        yield FileRow(where, problem="the entity set has no name.")
        return
    if not verbs:
        note = "the metadata allows nothing here directly; it is reached through other entities."
        yield FileRow(where, note=note)
        return
    about = about_of(node, terms) or about_of(kind, kind_terms)
    about = "" if about.rstrip(".") == name else about.removeprefix(f"{name}. ")
    pairs = ((node, terms), (kind, kind_terms))
    label = next(filter(None, (label_of(*pair) for pair in pairs)), "")
    title = f"{name} ({label})" if label and label.replace(" ", "").casefold() != name.casefold() else name
    keys = ", ".join(metadata.keys(type_name))
    dead = is_deprecated(terms) or is_deprecated(kind_terms)
    for verb in verbs:
        lead = verb.of_singleton if node.tag == "Singleton" else verb.of_set
        words = lead.format(title, f" ({keys})" if keys else "")
        endpoints = [verb.endpoint.format(name[0].upper() + name[1:]), f"{name}.{verb.endpoint.format('')}"]
        yield _tool(metadata, where, endpoints, words, about, dead, 0, *(tags(node) or tags(kind)))


def _imports(metadata: Metadata, node: Node, target: str, called: str) -> Iterator[FileRow]:
    """One tool for each overload of what is imported, the shortest first: it has the plain name."""
    name, where = node.get("Name"), f"{metadata.shown}#/{target}"
    if not name:
        yield FileRow(where, problem="the import has no name.")
        return
    unbound = [one for one in metadata.callables.get(called, []) if one.get("IsBound").lower() != "true"]
    unbound = sorted(unbound or [node], key=lambda one: len(one.all("Parameter")))
    method = node.get("HttpMethod") or ("POST" if node.tag == "ActionImport" else "GET")
    own = metadata.terms(node, target)
    general = about_of(node, own)
    for source in unbound:
        types, terms = metadata.overload(source, called) if source is not node else ("", own)
        parameters = source.all("Parameter") or node.all("Parameter")
        rest = ", ".join(one.get("Name") for one in parameters)
        types = types or ",".join(one.get("Type") for one in parameters)
        special = about_of(source, terms)
        about = general or special or label_of(node, own) or label_of(source, terms)
        made = f"{sentence(name)} ({method}{f', with {rest}' if rest else ''})."
        endpoints = [name, f"{method}{name}", f"{name}({rest})", f"{name}({types})"]
        lead, at = "" if about else made, where
        if len(unbound) > 1:
            lead, about = ("", describe(special, general)) if special else (made, about)
            endpoints, at = [name, *endpoints[2:], endpoints[1]], f"{where}({types})"
        dead = is_deprecated(own) or is_deprecated(terms)
        left = metadata.parameter_texts(parameters, called, f"{called}({types})")
        yield _tool(metadata, at, endpoints, lead, about, dead, left, *tags(node))


def _bound(metadata: Metadata, node: Node, full: str, parameters: list[Node]) -> FileRow:
    bound = parameters[0].get("Type")
    inner = re.sub(r"^Collection\((.*)\)$", r"\1", bound)
    owner = inner.rpartition(".")[2] + ("Collection" if inner != bound else "")
    rest = ", ".join(parameter.get("Name") for parameter in parameters[1:])
    types, terms = metadata.overload(node, full)
    about = about_of(node, terms) or label_of(node, terms)
    left = metadata.parameter_texts(parameters[1:], full, f"{full}({types})")
    lead = f"{sentence(node.get('Name'))} of {owner}{f', with {rest}' if rest else ''} ({node.tag.lower()})."
    endpoint = f"{owner}.{node.get('Name')}"
    where, endpoints = f"{metadata.shown}#/{full}", [endpoint, f"{endpoint}({rest})", f"{endpoint}({types})"]
    return _tool(metadata, where, endpoints, "" if about else lead, about, is_deprecated(terms), left)
