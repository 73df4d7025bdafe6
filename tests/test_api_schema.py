"""What the API says of itself is whole and true."""

import json

import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from tests.api_description import Operation, description, json_schema, operations
from trace_site.rest.schema import examples, operation_id


def test_the_schema_is_valid_and_made_without_warnings() -> None:
    GENERATOR_STATS.reset()
    validate_schema(description())
    assert not GENERATOR_STATS


@pytest.mark.parametrize("operation", operations(), ids=str)
def test_every_operation_has_a_summary_a_tag_and_its_refusals(operation: Operation) -> None:
    said, answers = operation.said, operation.said["responses"]
    assert said["summary"].strip() and not said["summary"].endswith(".")
    assert set(said["tags"]) <= {tag["name"] for tag in description()["tags"]}
    assert {"400", "401", "403"} <= set(answers)
    assert "{" not in operation.path or "404" in answers
    if operation.method == "POST" and said["tags"] != ["retrieve"]:
        assert {"409", "422"} <= set(answers)
    if any(parameter["name"] == "If-Match" for parameter in said.get("parameters", [])):
        assert {"412", "428"} <= set(answers)
    for status, _, content in operation.answers():
        assert status < "400" or content["schema"] == {"$ref": "#/components/schemas/Error"}


@pytest.mark.parametrize("operation", operations(), ids=str)
def test_every_operation_shows_examples_that_are_true_to_its_schema(operation: Operation) -> None:
    if body := operation.bodies().get("application/json"):
        assert operation.examples(body), "no example of the body"
    for status, media, content in operation.answers():
        is_file = content["schema"].get("format") == "binary"
        if status < "300" and media == "application/json" and not is_file:
            assert operation.examples(content), f"no example of the answer {status}"
    contents = [*operation.bodies().values(), *(content for _, _, content in operation.answers())]
    for content in contents:
        validator = Draft202012Validator(json_schema(content["schema"]))
        for value in operation.examples(content):
            plain = json.loads(json.dumps(value))
            assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(plain)] == []


def test_every_example_belongs_to_a_shape_or_to_an_operation() -> None:
    shapes = {
        name.removesuffix("Request").removeprefix("Patched")
        for name in description()["components"]["schemas"]
    }
    ids = {operation.said["operationId"]: operation for operation in operations()}
    for name in examples():
        if name[0].isupper():
            assert name in shapes, name
        elif " " in name:
            operation_name, place = name.split()[:2]
            said = ids[operation_name].said
            assert place == "request" or place in said["responses"], name


def test_an_operation_shows_its_own_examples_beside_those_of_its_shapes() -> None:
    block = description()["paths"]["/api/v1/tools/{id}/block"]["post"]["responses"]
    shown = {status: answer["content"]["application/json"] for status, answer in block.items()}
    assert list(shown["200"]["examples"]) == ["answer"]
    assert shown["200"]["examples"]["answer"]["value"]["blocked"] is True
    assert list(shown["409"]["examples"]) == ["blocked already"]
    page = description()["paths"]["/api/v1/clusters"]["get"]["responses"]["200"]["content"][
        "application/json"
    ]
    assert page["examples"]["answer"]["value"] == {"results": [examples()["ClusterOut"]], "next": "31"}


@pytest.mark.parametrize(
    ("view", "method", "expected"),
    [
        ("ToolsList", "GET", "tools_list"),
        ("AssignmentsList", "POST", "assignment_create"),
        ("RuleVersionOne", "GET", "rule_version_read"),
        ("QueryOne", "DELETE", "query_remove"),
        ("RulesExport", "GET", "rules_export"),
    ],
)
def test_the_id_of_an_operation_is_the_name_of_its_view(view: str, method: str, expected: str) -> None:
    assert operation_id(view, method) == expected


def test_an_operation_says_what_its_docstring_says() -> None:
    said = description()["paths"]["/api/v1/webhooks"]["post"]
    assert (said["operationId"], said["tags"]) == ("webhooks_create", ["webhooks"])
    assert said["summary"] == "Add a webhook"
    assert said["description"] == "The answer holds its secret, which is not told again."
