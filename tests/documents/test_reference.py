"""docs/reference/api says what the docstrings of the public names say, and these say all that a caller must know.

`REFERENCE=write` writes the pages anew (`make reference`).
"""

import os
from importlib import import_module

import griffe
import pytest
from reference import ROOT, attributes, entries, examples, is_property, members, parameters, said, sections
from reference_pages import pages

import tidegate.ports
from tidegate.protocol.facts import errors

FOLDER = ROOT / "docs/reference/api"
CONNECTORS = ("sources", "source_abilities", "sinks", "sink_abilities", "arrow_reading")


def public():
    return [entry for listed in entries().values() for entry in listed]


def test_the_pages_are_what_the_docstrings_say():
    made = pages()
    if os.environ.get("REFERENCE") == "write":
        FOLDER.mkdir(exist_ok=True)
        for path in FOLDER.glob("*.md"):
            path.unlink()
        for name, text in made.items():
            (FOLDER / name).write_text(text)
    assert {path.name: path.read_text() for path in FOLDER.glob("*.md")} == made, "run `make reference`"


@pytest.mark.parametrize("package", ["tidegate", "tidegate.airflow", "tidegate.savepoint", "tidegate.state"])
def test_no_public_name_is_missing(package):
    assert set(import_module(package).__all__) <= {entry.name for entry in public() if entry.module == package}


def test_no_part_of_the_contracts_of_sources_and_sinks_is_missing():
    defined = {
        name
        for name in tidegate.ports.__all__
        if getattr(tidegate.ports, name).__module__ in {f"tidegate.ports.{file}" for file in CONNECTORS}
    }
    assert defined <= {entry.name for entry in public()}


def test_a_docstring_says_parameters_results_and_errors():
    raisable = {name for name, value in vars(errors).items() if isinstance(value, type)} | {"LeftToSparkError"}
    wrong = []
    for entry in public():
        for each in (entry.described, *members(entry)):
            where = entry.title if each is entry.described else f"{entry.title}.{each.name}"
            wrong += [f"{where}: {what}" for what in unsaid(each, entry.is_error, raisable)]
    assert wrong == []


def test_no_public_name_takes_or_returns_anything():
    """But for arguments that are handed on, and the schedule of a DAG, for which Airflow has no public type."""
    untyped = [
        f"{entry.title}.{each.name}"
        for entry in public()
        for described in (entry.described, *members(entry))
        for each in (*parameters(described), described)
        if "Any" in (str(getattr(each, "annotation", "")), str(getattr(each, "returns", "")))
        and getattr(each, "kind", None) is not griffe.ParameterKind.var_keyword
        and each.name != "schedule"
    ]
    assert untyped == []


def unsaid(described, is_error, raisable):
    """What its docstring lacks."""
    if not any(section.kind.value == "text" for section in sections(described)):
        yield "has no text"
    if unknown := said(described, "raises").keys() - raisable:
        yield f"raises {unknown}, which are no errors of ours"
    if is_error or is_property(described):
        return
    given = {each.name for each in parameters(described)}
    if isinstance(described, griffe.Function):
        if given != said(described, "parameters").keys():
            yield f"is called with {given}, and says {set(said(described, 'parameters'))}"
        returns = any(section.kind.value == "returns" for section in sections(described))
        if returns != (str(described.returns) != "None"):
            yield f"returns {described.returns}"
        return
    fields = {name for name, each in described.attributes.items() if not name.startswith("_") and not is_property(each)}
    told = said(described, "parameters").keys() or attributes(described).keys()
    if not told and not (given or fields):  # a protocol, of methods
        return
    if told not in (given, fields):
        yield f"has {given or fields}, and says {set(told)}"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    found = list(examples())
    assert len(found) > 10
    for name, code in found:
        exec(compile(code, f"<example of {name}>", "exec"), {"__name__": "example"})
    assert list(tmp_path.iterdir()) == []
