"""Shapes: what an operation reads or answers, field by field, as annotations. A shape is a serializer.

    class RunRow(Shape, of=Run):
        fields = "id seed state loss created_by"
        state: Job.State
        loss: float | None = field("the newest, a running mean")

`of` is a model or a dataclass whose fields the shape has: those that `fields` names, of a dataclass all of them without
it. An annotation adds a field, or stands in for the one of that name. A field's text in the API's description is the
first argument of `field`, or in a dataclass the string of an `Annotated`. A dataclass inside another needs no shape.
"""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from django.contrib.auth.models import User
from django.db import models
from rest_framework import serializers

FIELD_OF_TYPE: dict[Any, Any] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    datetime: serializers.DateTimeField,
    date: serializers.DateField,
    UUID: serializers.UUIDField,
    Any: serializers.JSONField,
}
FIELD_OF_COLUMN: dict[Any, Any] = serializers.ModelSerializer.serializer_field_mapping | {
    models.SlugField: serializers.CharField
}
SHAPES: dict[Any, Any] = {}  # {dataclass: its first shape}


@dataclasses.dataclass(frozen=True)
class Options:
    given: dict[str, Any]


def field(help_text: str = "", **options: Any) -> Any:
    """What an annotation cannot say. options: those of the serializer's field, such as `source` or `max_length`."""
    return Options({"help_text": help_text, **options} if help_text else options)


def field_of(hint: Any, options: Mapping[str, Any]) -> Any:
    """The serializer's field of an annotation."""
    options = dict(options)
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        for note in notes:
            options = (note.given if isinstance(note, Options) else {"help_text": note}) | options
    if get_origin(hint) in (Union, UnionType):
        hint = next(one for one in get_args(hint) if one is not NoneType)
        options = {"allow_null": True} | options
    inner = get_args(hint)
    kind: Any = get_origin(hint) or hint
    if kind is Literal or "choices" in options:
        return serializers.ChoiceField(**{"choices": inner} | options)
    if kind is str and options.get("default") == "":
        options = {"allow_blank": True} | options
    if kind in (list, tuple, Sequence):
        item = field_of(inner[0], {})
        if isinstance(item, serializers.BaseSerializer):
            return type(item)(many=True, **options)
        return serializers.ListField(child=item, **options)
    if kind in (dict, Mapping):
        child = {} if inner[1] is Any else {"child": field_of(inner[1], {})}
        return serializers.DictField(**child, **options)
    if kind in FIELD_OF_TYPE:
        return FIELD_OF_TYPE[kind](**options)
    if issubclass(kind, models.Choices):
        return serializers.ChoiceField(choices=kind.choices, **options)
    if dataclasses.is_dataclass(kind) and kind not in SHAPES:
        ShapeType(f"{kind.__name__}Out", (Shape,), {}, of=kind)  # type: ignore[union-attr]
    return SHAPES.get(kind, kind)(**options)


def field_of_model(model: type[models.Model], name: str) -> Any:
    """The serializer's field of a column: the name of a user, the id of another row, else the value."""
    column: Any = model._meta.get_field(name)
    options: dict[str, Any] = {"allow_null": True} if column.null else {}
    if column.related_model is User:
        options |= {"default": None} if column.null else {}
        return serializers.CharField(source=f"{name}.username", **options)
    if column.related_model is not None:
        options["source"] = f"{name}_id"
        column = column.target_field
    elif name == "id":
        options["source"] = "pk"
    if column.choices:
        return serializers.ChoiceField(choices=column.choices, **options)
    kind = next(kind for kind in type(column).__mro__ if kind in FIELD_OF_COLUMN)
    return FIELD_OF_COLUMN[kind](**options)


def field_of_dataclass(source: Any, name: str) -> Any:
    """The serializer's field of a dataclass's field or property."""
    found = inspect.getattr_static(source, name, None)
    if isinstance(found, property):
        return field_of(get_type_hints(found.fget, include_extras=True)["return"], {})
    return field_of(get_type_hints(source, include_extras=True)[name], {})


class ShapeType(serializers.SerializerMetaclass):
    """With `total=False` a field without a default may be left out, as in a TypedDict."""

    def __new__(mcs, name: str, bases: Any, body: Any, of: Any = None, total: bool = True) -> Any:
        names = body.pop("fields", "").split()
        shape: Any = super().__new__(mcs, name, bases, body)
        own = {}
        for named, hint in inspect.get_annotations(shape, eval_str=True).items():
            value = shape.__dict__.get(named, Options({}))
            if named in shape.__dict__:
                delattr(shape, named)
            options = value.given if isinstance(value, Options) else {"default": value}
            if not total and "default" not in options:
                options = {"required": False} | options
            if f"get_{named}" in body:
                own[named] = serializers.SerializerMethodField(**options)
            else:
                own[named] = field_of(hint, options)
        is_dataclass = dataclasses.is_dataclass(of)
        if is_dataclass:
            SHAPES.setdefault(of, shape)
            names = names or [one.name for one in dataclasses.fields(of)]
        read: Any = field_of_dataclass if is_dataclass else field_of_model
        taken = {one: own.pop(one, None) or read(of, one) for one in names}
        shape._declared_fields = {**shape._declared_fields, **taken, **own}
        return shape


if TYPE_CHECKING:
    _Base: Any = object

    class Shape(_Base):  # type: ignore[misc]
        """Of any type, so that a field may be called `label` or `errors` as attributes of a serializer are."""

        def __init_subclass__(cls, *, of: Any = None, total: bool = True) -> None: ...

else:

    class Shape(serializers.Serializer, metaclass=ShapeType):
        pass  # a docstring would stand in the API's description of every shape
