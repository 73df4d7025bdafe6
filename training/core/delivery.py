"""What a trainer elsewhere delivers: run directories of one cell, read and checked before anything is believed.

In: a run directory of `python -m training.ml`, or a folder with `stage1`, `plain`, `stage2` run directories. Out: one
`Delivery` per stage in training order. Refusals say what is wrong, where, and what to do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from catalog.core.tokens import telling_units, tool_units
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, sha256_file
from training.core import recipe as recipes
from training.core.recipe import POCKET, Recipe
from training.core.rundir import damaged

ORDER = ("base", "stage1", "plain", "stage2")
KINDS = (".safetensors", ".json", ".md", ".txt", ".jinja", ".model")  # nothing that loading could run
# fields that make a loader run code, or fetch some, from where they say
RUNS_CODE = {"auto_map", "custom_pipelines", "custom_generate", "attn_implementation", "_attn_implementation"}
NEEDED = ("format", "memo", "retrieval", "base", "seed", "snapshot_hash", "recipe_hash", "tools")


@dataclass(frozen=True)
class Delivery:
    """One finished stage. `manifest`: sha256 of its export's manifest; `init`: that of the export it went on from."""

    folder: Path
    stage: str
    recipe: Recipe
    spec: dict[str, Any]
    done: dict[str, Any]
    manifest: str
    init: str

    @property
    def export(self) -> Path:
        return self.folder / "export"


def refuse(problem: str, where: Path, hint: str, code: str = "bad_delivery") -> TraceError:
    return TraceError(problem, code=code, where=str(where), hint=hint)


def read_delivery(folder: Path) -> list[Delivery]:
    """The stages below a folder, every file verified. Raises TraceError."""
    if not folder.is_dir():
        raise refuse("is not a folder.", folder, "Give the folder that --run named.", "no_such_file")
    parts = [folder / name for name in ORDER if (folder / name).is_dir()]
    found = [read_stage(part) for part in (parts or [folder])]
    for before, after in zip(found, found[1:], strict=False):
        if after.init != before.manifest:
            hint = "Bring the run directories of one chain: --init names the export of the stage before."
            raise refuse(f"was not trained from the export of {before.stage} beside it.", after.folder, hint)
    return found


def read_stage(folder: Path) -> Delivery:
    if not (folder / "done.json").is_file():
        raise refuse(
            "there is no done.json: the stage is not finished.", folder, "Run the trainer to its end."
        )
    check_files(folder / "export")
    done, spec = read_json(folder / "done.json"), read_json(folder / "export" / "trace.json")
    if not isinstance(done, dict) or not isinstance(spec, dict) or (missing := set(NEEDED) - set(spec)):
        lack = f" ({min(missing)} is missing)" if isinstance(spec, dict) else ""
        raise refuse(f"trace.json is not a trainer's{lack}.", folder, "Export it again with this version.")
    recipe = recipes.load(folder / "recipe.yaml")
    if recipe.hash() != spec["recipe_hash"]:
        raise refuse(
            "recipe.yaml is not the recipe that the model was trained with.",
            folder / "recipe.yaml",
            "Bring the run directory as the trainer left it; a trainer of another version writes another recipe.",
        )
    for name in ("format", "base", "seed"):
        if spec[name] != getattr(recipe, name):
            raise refuse(f"trace.json and recipe.yaml differ in {name}.", folder, "Bring it as it was left.")
    stage = str(done.get("stage", ""))
    untrained = spec["memo"] == spec["retrieval"] == "none"
    return Delivery(
        folder,
        "base" if untrained else stage,
        recipe,
        spec,
        done,
        sha256_file(folder / "export" / "manifest.json"),
        str(done.get("init", "")),
    )


def check_files(export: Path, beside: Iterable[str] = ()) -> list[str]:
    """Exactly the files of the manifest, with their digests, and none that loading could run; returns their names.
    `beside`: what else may lie there."""
    if not (export / "manifest.json").is_file():
        raise refuse("there is no export with a manifest.json.", export, "Run the trainer to its end.")
    manifest = read_json(export / "manifest.json")
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not all(isinstance(facts, dict) for facts in files.values()):
        raise refuse("the manifest lists no files.", export / "manifest.json", "Copy the folder again.")
    for path in sorted(export.rglob("*")):
        name = str(path.relative_to(export))
        if path.is_symlink() or (path.is_file() and name not in {*files, *beside, "manifest.json"}):
            raise refuse(
                "is not listed in the manifest.", path, "Take it out: only what was exported comes in."
            )
    for name in files:
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or inside.suffix not in KINDS:
            raise refuse(
                f"'{name}' is no file that an export holds.", export, f"Exports hold {', '.join(KINDS)}."
            )
    if found := damaged(export):
        where = export / found
        raise refuse("is not the file that the manifest describes.", where, "Copy the folder again.")
    return list(files)


def check_tools(one: Delivery, tools: list[str], ledger: list[str], clauses: list[str]) -> None:
    """The model's tools and token ids are those of our snapshot and ledger.

    tools: the snapshot's names. ledger: all strings of the format in slot order; ids follow it from the first tool
    token on. clauses: the same of clauses, whose rows a pocket model has.
    """
    pocket, fmt = one.recipe.base == POCKET, one.recipe.format
    strings = {name: (telling_units if pocket else tool_units)(name, fmt) for name in tools}
    where = one.export / "trace.json"
    ids = {row["name"]: list(row["ids"]) for row in one.spec["tools"]}
    if set(ids) != set(tools) or len(one.spec["tools"]) != len(tools):
        odd = min(set(ids) ^ set(tools), default="a tool that is named twice")
        raise refuse(
            f"its tools are not those of its snapshot ({odd}).", where, "Train on the snapshot as downloaded."
        )
    slots = {string: slot for slot, string in enumerate(ledger)}
    firsts = {
        found - slots[string]
        for name in tools
        for string, found in zip(strings[name], ids[name], strict=False)
        if string in slots
    }
    lengths = all(len(strings[name]) == len(ids[name]) for name in tools)
    if len(firsts) != 1 or not lengths:
        raise refuse(
            "its token ids do not follow the ledger.", where, "Train on a snapshot of this installation."
        )
    first = min(firsts)
    if pocket:
        rows = {row["token"]: row["row"] for row in one.spec["clauses"]}
        if first or not rows.items() <= {string: slot for slot, string in enumerate(clauses)}.items():
            raise refuse(
                "its rows do not follow the ledger.", where, "Train on a snapshot of this installation."
            )
        return
    path = one.export / "tokenizer.json"
    added = {row["content"]: row["id"] for row in read_json(path).get("added_tokens", [])}
    for slot, string in enumerate(ledger, start=first):
        if added.get(string) != slot:
            problem = f"the token {string} has the id {added.get(string)}, not {slot}."
            raise refuse(problem, path, "Export the model again.")
