"""YAML of a few settings that somebody typed or sent: a recipe, a plan.

In: a text. Out: mappings, lists, texts, numbers, true, false and None, as JSON knows them; an empty mapping where
there is nothing. What could grow beyond the text (aliases), nest without end, or run (tags) is refused while it is
parsed, before anything is built.
"""

from typing import Any

import yaml

from trace_site.lib.errors import TraceError, cut

LONGEST = 20_000  # characters
DEEPEST = 20  # levels
MOST = 2_000  # values
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(LOADER):  # type: ignore[misc]
    """Dates stay the texts they are typed as, and a key stands once."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in pairs if tag != TIMESTAMP]
        for first, pairs in LOADER.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(found) < len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key is given twice", node.start_mark)
        return found


def read_small_yaml(text: str, where: str) -> Any:
    """The value of a YAML or JSON text. Raises TraceError `bad_recipe`."""
    if len(text) > LONGEST:
        raise _refused(f"has {len(text):,} characters; at most {LONGEST:,} are read.", where)
    try:
        _check_events(text, where)
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f"Line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        reason = cut(str(error.problem or error.context), 200)
        raise _refused("not valid YAML.", where, f"{line}{reason}.") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as a number of 5,000 digits
        raise _refused("not valid YAML.", where, cut(str(error), 200)) from error
    return {} if value is None else value


def _check_events(text: str, where: str) -> None:
    depth = values = 0
    for event in yaml.parse(text, Loader=LOADER):
        if not isinstance(event, yaml.NodeEvent):
            depth -= isinstance(event, yaml.CollectionEndEvent)
            continue
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _refused("holds an anchor or alias.", where, "Write the values out.")
        if getattr(event, "tag", None) is not None:
            raise _refused("holds a tag.", where, "Leave out what begins with an exclamation mark.")
        values += 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        if depth > DEEPEST:
            raise _refused(f"is nested deeper than {DEEPEST} levels.", where)
        if values > MOST:
            raise _refused(f"holds more than {MOST:,} values.", where)


def _refused(problem: str, where: str, hint: str = "") -> TraceError:
    return TraceError(problem, code="bad_recipe", where=where, hint=hint)
