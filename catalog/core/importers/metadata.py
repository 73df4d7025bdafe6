"""What OData metadata says about its elements: types with their keys, annotations by target, words and flags."""

from collections import defaultdict

from catalog.core.importers.edmx import Node
from catalog.core.importers.wording import describe

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
