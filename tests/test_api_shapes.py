"""A shape is the serializer that its annotations, its dataclass or its model say."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

import pytest
from rest_framework import serializers

from rules.models import RuleVersion
from trace_site.jobs import Job
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field


@dataclass
class Part:
    name: str
    share: Annotated[float | None, "null: unknown"] = None


@dataclass
class Whole:
    parts: list[Part]
    kind: Literal["a", "b"]

    @property
    def count(self) -> Annotated[int, "of parts"]:
        return len(self.parts)


class WholeRow(Shape, of=Whole):
    """What of a whole is answered."""

    fields = "kind label parts count"
    label: str = field("in words", source="kind")


class PersonRow(Shape, of=RuleVersion):
    fields = "id rule author note created_at"


class Wanted(InputSerializer, total=False):
    state: Job.State
    label: str = field(max_length=3)
    limit: int = 10
    q: str = field(default="")
    since: datetime | None


def test_a_shape_answers_what_its_dataclass_has_in_the_order_that_is_named():
    found = WholeRow(Whole([Part("one")], "a")).data
    assert found == {"kind": "a", "label": "a", "parts": [{"name": "one", "share": None}], "count": 1}
    assert list(found) == ["kind", "label", "parts", "count"]


def test_texts_of_fields_come_from_the_annotation_and_from_the_dataclass():
    fields = WholeRow().fields
    assert (fields["label"].help_text, fields["count"].help_text) == ("in words", "of parts")
    part = fields["parts"].child
    assert (type(part).__name__, part.fields["share"].help_text) == ("PartOut", "null: unknown")
    assert part.fields["share"].allow_null


def test_a_model_gives_ids_of_rows_and_names_of_people():
    fields = PersonRow().fields
    assert {name: one.source for name, one in fields.items() if one.source != name} == {
        "id": "pk",
        "rule": "rule_id",
        "author": "author.username",
    }
    assert isinstance(fields["rule"], serializers.IntegerField)
    assert isinstance(fields["created_at"], serializers.DateTimeField)


def test_what_may_be_left_out_is_left_out_and_the_rest_is_checked():
    assert Wanted().run_validation({}) == {"limit": 10, "q": ""}
    assert Wanted().run_validation({"state": "done", "since": None}) == {
        "state": "done",
        "since": None,
        "limit": 10,
        "q": "",
    }
    for wrong in ({"state": "none"}, {"label": "four"}, {"limits": 3}):
        with pytest.raises(serializers.ValidationError):
            Wanted().run_validation(wrong)
