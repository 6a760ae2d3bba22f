"""A fingerprint of a definition. It changes only with parts that columns, types and expectations depend on.

Functions count by their byte code, their closures, and the functions of their own package that they call by name. A
comment or a moved line changes nothing. Functions of other packages count by their name alone.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.vertices import SinkVertex, SourceVertex, Vertex


def fingerprint(graph: Graph) -> str:
    """Return the fingerprint. It is equal in every process of one Python version. Perform no I/O."""
    vertices = (*graph.sources, *graph.producers, *graph.sinks, *graph.checks)
    facts = [facts_of(vertex) for vertex in vertices]
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def facts_of(vertex: Vertex | Stream) -> Any:
    """Return the facts about a vertex, or about a stream's origin and transforms, as JSON. Perform no I/O."""
    return _Facts().of(vertex)


class _Facts:
    """The facts about a value, as JSON. A value that refers to itself is described once."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}  # holds the objects, so that no other object gets their ids

    def of(self, value: object) -> Any:
        match value:
            case None | bool() | int() | float() | str() | bytes():
                return repr(value)
            case Enum():
                return [type(value).__qualname__, value.name]
            case type() | ModuleType():
                return [getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)]
            case tuple():
                return [self.of(item) for item in value]
            case SourceVertex():
                facts = (value.source.describe(), value.previous, value.event_time)
                return [value.name, *(self.of(fact) for fact in facts)]
            case SinkVertex():
                return [value.name, self.of(value.input), self.of(value.sink.describe()), self.of(value.expect)]
            case set() | frozenset():
                return sorted(json.dumps(self.of(item)) for item in value)
            case Pipeline():
                return value.name
            case Stream():
                return [value.origin, value.output, self.of(value.transforms)]
            case MethodType():
                return [self.of(value.__func__), self.of(value.__self__)]
            case partial():
                return [self.of(value.func), self.of(value.args), self.of(value.keywords)]
            case CodeType():
                return self._code(value)
            case _:
                return self._once(value)

    def _once(self, value: object) -> Any:
        """Return only the type of an object of unknown kind: more could start Spark."""
        kind = [type(value).__module__, type(value).__qualname__]
        if id(value) in self._seen:
            return kind
        self._seen[id(value)] = value
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value, Mapping):
            return {str(key): self.of(item) for key, item in value.items()}
        if is_dataclass(value):
            return [*kind, [self.of(getattr(value, field.name)) for field in fields(value)]]
        return kind

    def _function(self, function: FunctionType) -> Any:
        name = [function.__module__, function.__qualname__]
        closed = [content for cell in function.__closure__ or () if _is_fixed(content := _content(cell))]
        given = [function.__defaults__, function.__kwdefaults__, closed, vars(function)]
        used = {name: self.of(value) for name, value in sorted(_used(function))}
        return [*name, self._code(function.__code__), [self.of(each) for each in given], used]

    def _code(self, code: CodeType) -> Any:
        return [code.co_code.hex(), code.co_names, code.co_varnames, [self.of(each) for each in code.co_consts]]


def _is_fixed(value: object) -> bool:
    """Return whether a value counts. One that a function may change while it runs would change the definition every
    time."""
    return not isinstance(value, list | dict | set | bytearray)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell: a function that refers to itself while it is defined
        return None


def _used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that the code uses: globals of its module, and functions of modules of its package."""
    package = function.__module__.partition(".")[0]
    spaces: list[tuple[str, Mapping[str, Any]]] = [("", function.__globals__)]
    names = _names(function.__code__)
    for name in names:
        module = function.__globals__.get(name)
        if isinstance(module, ModuleType) and module.__name__.partition(".")[0] == package:
            spaces.append((f"{name}.", vars(module)))
    for prefix, space in spaces:
        for name in names & space.keys():
            value = space[name]
            is_theirs = isinstance(value, FunctionType) and (value.__module__ or "").partition(".")[0] != package
            if _is_fixed(value) and not is_theirs:
                yield prefix + name, value


def _names(code: CodeType) -> set[str]:
    """Return the names in the code, including those in functions that it defines."""
    inner = [_names(each) for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*inner)
