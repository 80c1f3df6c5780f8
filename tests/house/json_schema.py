"""JSON Schemas (2020-12) of what `rmqtool.projection` makes of dataclasses, from their annotations.

Run when the published files are made and tested, never by a command: names that only a type checker imports
are imported here.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Collection, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from rmqtool.projection import Member, members_of

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "pattern": "^([0-9a-f]{2})*$"},
    object: {},
    Any: {},
}
_BODY: dict[str, Schema] = {
    "body": {"type": ["string", "null"]},
    "bodyEncoding": {"enum": ["utf-8", "base64", "hex", None]},
}
_MARKS = frozenset({"schema", "type"})
_NOTE = re.compile(r"^ {4,8}(\w+): (.+(?:\n {9,}.+)*)", re.MULTILINE)


def closed(properties: Mapping[str, Schema], optional: Collection[str] = ()) -> Schema:
    """Return the schema of an object with these members and no others."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def table_of(value: Schema) -> Schema:
    """Return the schema of an object whose members are named by data."""
    return {"type": "object", "additionalProperties": value}


def array_of(items: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


class Definitions:
    """The classes of a schema, each defined once; ``defined`` has their schemas by name, for ``$defs``."""

    def __init__(self) -> None:
        self.defined: dict[str, Schema] = {}

    def of(self, kind: type[Any]) -> Schema:
        """Return a reference to the schema of a class's objects."""
        name = kind.__name__
        if name not in self.defined:
            self.defined[name] = {}  # a class may hold its own kind
            self.defined[name] = self.object(kind)
        return {"$ref": f"#/$defs/{name}"}

    def object(self, kind: type[Any], more: Mapping[str, Schema] | None = None, optional: str = "") -> Schema:
        """Return the schema of a class's objects.

        ``more`` are members that a command adds to them, or shows otherwise; ``optional`` names those of them
        that may be absent, separated by blanks.
        """
        members = members_of(kind)
        notes = dict(_NOTE.findall(inspect.getdoc(kind) or ""))
        found = {one.name: self._member(kind, one, notes) for one in members if not one.is_spread}
        absent = {*(one.name for one in members if one.is_optional), *optional.split()}
        schema = closed(found | dict(more or {}), absent)
        if any(one.is_spread for one in members):
            schema["additionalProperties"] = True
        return schema

    def _member(self, kind: type[Any], member: Member, notes: Mapping[str, str]) -> Schema:
        constant = getattr(kind, member.path, None) if member.name in _MARKS else None
        if isinstance(constant, str):
            return {"const": constant}
        annotation = _annotation(kind, member.path)
        schema = dict(_BODY[member.name]) if _is_body(member, annotation) else self.value(annotation)
        if member.path in notes:
            schema["description"] = " ".join(notes[member.path].split())
        return schema

    def value(self, annotation: Any) -> Schema:  # noqa: ANN401 - any annotation
        """Return the schema of a value; TypeError if `rmqtool.projection.json_value` has no form for it."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin in {Union, types.UnionType}:
            return {"anyOf": [self.value(one) for one in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        return (
            dict(_SIMPLE[annotation])
            if annotation in _SIMPLE
            else self._of_kind(origin or annotation, arguments)
        )

    def _of_kind(self, kind: type[Any], arguments: tuple[Any, ...]) -> Schema:
        if is_dataclass(kind) or hasattr(kind, "_fields"):
            return self.of(kind)
        if issubclass(kind, Enum):
            return {"enum": [one.value for one in kind]}
        if issubclass(kind, Mapping):
            return table_of(self.value(arguments[-1]))
        if not issubclass(kind, Iterable):
            raise TypeError(f"{kind!r} has no schema")
        return array_of(self.value((arguments or get_args(_hints(kind.__iter__)["return"]))[0]))


def _is_body(member: Member, annotation: object) -> bool:
    return member.path == "body" and annotation is bytes


def _annotation(kind: Any, path: str) -> Any:  # noqa: ANN401 - classes and annotations
    """Return the type of an attribute of a class's instances; of a method, that of its result."""
    name, _, rest = path.partition(".")
    found = _hints(kind).get(name)
    if found is None:
        attribute = getattr(kind, name)
        function = attribute.fget if isinstance(attribute, property) else attribute
        found = str if name == "__str__" else _hints(function)["return"]
    if not rest:
        return found
    return _annotation(next(one for one in get_args(found) or (found,) if one is not type(None)), rest)


@cache
def _hints(owner: Any) -> dict[str, Any]:  # noqa: ANN401 - a class or a function
    names: dict[str, Any] = {}
    for one in getattr(owner, "__mro__", (owner,)):
        module = inspect.getmodule(one)
        if module is not None and module.__name__.startswith("rmqtool"):
            names = vars(module) | _for_type_checkers(module) | names
    return get_type_hints(owner, globalns=names)


@cache
def _for_type_checkers(module: types.ModuleType) -> dict[str, object]:
    """Return the imports of a module in ``if TYPE_CHECKING``."""
    return {
        alias.name: getattr(import_module(node.module), alias.name, object)  # or a type there, too
        for block in ast.parse(inspect.getsource(module)).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("_typeshed")
        for alias in node.names
    }
