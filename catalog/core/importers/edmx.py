"""An OData `$metadata` file (EDMX) as a small tree: only what describes operations is kept, under local names.

Document types, entities and anything that would fetch are refused by defusedxml; depth is capped here.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from catalog.core.importers.detect import refusal
from catalog.core.importers.documents import check_size
from trace_site.lib.errors import TraceError

MAX_DEPTH = 100
MAX_TEXT = 40_000
KEPT = {"Edmx", "DataServices", "Schema", "EntityContainer", "EntitySet", "Singleton", "FunctionImport"}
KEPT |= {"ActionImport", "Function", "Action", "Parameter", "EntityType", "Key", "PropertyRef", "Annotations"}
KEPT |= {"Annotation", "Record", "PropertyValue", "Collection", "Bool", "String", "EnumMember"}
KEPT |= {"Documentation", "Summary", "LongDescription", "tagcollection", "tag"}
TERMS = {"InsertRestrictions", "UpdateRestrictions", "DeleteRestrictions", "ReadRestrictions", "Revisions"}
TERMS |= {"Description", "LongDescription", "Label", "QuickInfo"}
OTHERS = {
    "definitions": ("a WSDL file", "List its operations as JSON lines, one tool a line."),
    "description": ("a WSDL file", "List its operations as JSON lines, one tool a line."),
    "application": ("a WADL file", "Convert it to OpenAPI 3."),
    "service": ("an OData service document", "Ask the server for $metadata."),
    "feed": ("an answer of an OData service", "Ask the server for $metadata."),
    "html": ("a web page", "Download the raw file instead of the page that shows it."),
}
HINT = "The XML that is read here is OData $metadata (EDMX)."


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

    def first(self, tag: str) -> "Node | None":
        return next((child for child in self.children if child.tag == tag), None)


class Tree:
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
        name = _local(tag)
        dropped = name not in KEPT or (name == "Annotation" and _local_term(attributes) not in TERMS)
        if dropped and self.depth > 1:
            self.skipped_at = self.depth
            return
        named = {_local(key): value for key, value in attributes.items() if key.startswith("{")}
        named |= {key: value for key, value in attributes.items() if not key.startswith("{")}
        node = Node(name, named)
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
    parser: Any = DefusedXMLParser(target=Tree(), forbid_dtd=True)
    try:
        parser.feed(path.read_bytes())
        root: Node = parser.close()
    except DefusedXmlException as error:
        hint = "Take the <!DOCTYPE ...> out of the file; metadata needs none."
        raise _bad(shown, "it declares a document type or entities, which are never read", hint) from error
    except ParseError as error:
        reason = str(error).split(":")[0]
        raise _bad(f"{shown}:{error.position[0]}", reason, "Check that the file is complete.") from error
    except (ValueError, LookupError) as error:
        raise _bad(shown, str(error)[:200], "Save the file as UTF-8 and check it.") from error
    if root.tag not in {"Edmx", "Schema"}:
        what, hint = OTHERS.get(root.tag, (f"an XML file of another kind (<{root.tag[:60]}>)", HINT))
        raise refusal(shown, f"this is {what}.", hint)
    return root


def _bad(where: str, reason: str, hint: str) -> TraceError:
    return TraceError(f"not valid XML ({reason}).", code="bad_xml", where=where, hint=hint)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _local_term(attributes: dict[str, str]) -> str:
    return attributes.get("Term", "").rpartition(".")[2]
