"""The table of error codes: every code of the product is in it, nothing else is, and each says whose fault it was."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from rest_framework import exceptions

from tests.sources import modules
from trace_site.lib.errors import STATUS_OF, TraceError, declared, status_of

RAISED = {"TraceError": 1, "LlmError": 1}  # class -> where its code stands when it is given by position
FRAMEWORK = {
    exceptions.AuthenticationFailed,
    exceptions.NotAuthenticated,
    exceptions.MethodNotAllowed,
    exceptions.NotAcceptable,
    exceptions.UnsupportedMediaType,
}


def name_of(call: ast.Call) -> str:
    """`fail` of fail(), of module.fail() and of fail.to_json()'s last part."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def code_of(call: ast.Call, position: int) -> ast.expr | None:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return given.get("code") or (call.args[position] if len(call.args) > position else None)


def texts(value: ast.expr) -> Iterator[str]:
    """The codes that an expression can stand for: a text, one of two, or a stored one with another to fall back on."""
    if isinstance(value, ast.Constant):
        yield str(value.value)
    elif isinstance(value, ast.IfExp):
        yield from (*texts(value.body), *texts(value.orelse))
    elif isinstance(value, ast.Call) and name_of(value) == "declared":
        yield from texts(value.args[1])


def written_before(function: ast.AST, name: str) -> list[str]:
    """The texts that a function writes into a name of its own, which an error takes its code from at the end."""
    found: list[str] = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        pairs = (
            zip(target.elts, value.elts, strict=False)
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            else [(target, value)]
        )
        found += [
            text for to, what in pairs if isinstance(to, ast.Name) and to.id == name for text in texts(what)
        ]
    return [text for text in found if text]


@cache
def helpers(tree: ast.Module) -> dict[str, tuple[int, list[str]]]:
    """Functions that pass their own parameter `code` on to an error -> its position, and its default."""
    found = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        positional = [argument.arg for argument in function.args.args]
        names = positional + [argument.arg for argument in function.args.kwonlyargs]
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        codes = [code_of(call, RAISED[name_of(call)]) for call in calls if name_of(call) in RAISED]
        if "code" in names and any(isinstance(code, ast.Name) and code.id == "code" for code in codes):
            default = dict(
                zip(reversed(positional), (list(texts(value)) for value in reversed(function.args.defaults)))  # noqa: B905
            )
            found[function.name] = (names.index("code"), default.get("code", []))
    return found


@cache
def used() -> dict[str, str]:
    """Code -> a file and line that raises it or answers with it."""
    found: dict[str, str] = {}
    own = {path: helpers(tree) for path, tree in modules().items()}
    for path, tree in modules().items():
        passing = {name: position for name, (position, _) in own[path].items()}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                there = own.get(Path(f"{node.module.replace('.', '/')}.py"), {})
                passing |= {item.name: there[item.name][0] for item in node.names if item.name in there}
        for node in ast.walk(tree):
            codes: list[str] = []
            if isinstance(node, ast.Call) and (name := name_of(node)) in RAISED | passing:
                value = code_of(node, (RAISED | passing)[name])
                codes = list(texts(value)) if value is not None else []
            elif isinstance(node, ast.Dict):  # an answer that a view writes itself
                keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
                if {"message", "code", "extra"} <= set(keys):
                    codes = list(texts(node.values[keys.index("code")]))
            found |= dict.fromkeys(codes, f"{path}:{getattr(node, 'lineno', 0)}")
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef) or function.name in own[path]:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and (name := name_of(node)) in RAISED:
                    value = code_of(node, RAISED[name])
                    if isinstance(value, ast.Name):
                        found |= dict.fromkeys(written_before(function, value.id), str(path))
        for _, default in own[path].values():
            found |= dict.fromkeys(default, str(path))
    return found


def test_every_code_that_is_used_is_declared_and_every_declared_one_is_used():
    assert len(used()) > 150  # the search itself works
    assert {code: where for code, where in used().items() if code not in STATUS_OF} == {}
    assert sorted(set(STATUS_OF) - set(used()) - {each.default_code for each in FRAMEWORK}) == []


def test_no_other_expression_decides_on_a_code():
    """A code that is put together, or read from somewhere, would pass the test above unseen."""
    odd = []
    for path, tree in modules().items():
        allowed = helpers(tree)
        for function in ast.walk(tree):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name in allowed:
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and name_of(call) in RAISED:
                    value = code_of(call, RAISED[name_of(call)])
                    again = value is not None and ast.unparse(value) == "error.code"  # told again, elsewhere
                    known = isinstance(value, ast.Name) and written_before(function, value.id)
                    if value is not None and not again and not known and not list(texts(value)):
                        odd.append(f"{path}:{call.lineno}: {ast.unparse(value)}")
    assert odd == []


def test_a_code_that_is_not_declared_fails_loudly_instead_of_blaming_the_caller():
    with pytest.raises(ValueError, match="'never_declared' is not declared"):
        TraceError("no.", code="never_declared")
    with pytest.raises(KeyError):
        status_of("never_declared")
    assert declared("crash", "job_failed") == "crash"
    assert declared("poison", "job_failed") == declared("", "job_failed") == "job_failed"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *[(code, 503) for code in ("engine_failed", "store_missing", "ledger_down", "disk_full")],
        *[(code, 500) for code in ("write_failed", "bad_setting", "child_failed")],
        *[("llm_unreachable", 502), ("llm_timeout", 504), ("bad_input", 400)],
    ],
)
def test_a_failure_of_ours_or_of_an_upstream_is_not_the_callers(code, status):
    assert status_of(code) == status
