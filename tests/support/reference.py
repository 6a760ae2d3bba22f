"""The public names, and what their docstrings say: signature, parameters, attributes, results and errors.

Read from the source, by griffe. `PAGES` says which names are public, where each is imported from, and on which page of
docs/reference/api it is.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

import griffe

ROOT = Path(__file__).parents[2]
ERRORS = "tidegate.protocol.facts.errors"

#: By page: its title, and its names by the module that they are imported from.
PAGES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "pipelines": (
        "Pipelines",
        {
            "tidegate": "Pipeline Stream KeyedStream Update Previous count sum_ min_ max_ avg min_by max_by first "
            "last count_distinct collect_list approx_count_distinct approx_percentile approx_top_k window "
            "session_window expect suite"
        },
    ),
    "options": (
        "Options of checkpoints",
        {"tidegate": "CheckpointConfig CheckpointHistory CheckpointingMode DeliveryGuarantee CheckpointListener"},
    ),
    "connectors": (
        "Sources and sinks",
        {
            "tidegate": "FileSource ParquetSink PostgresSink PostgresSource IcebergSink IcebergSource KafkaSink "
            "KafkaSource"
        },
    ),
    "tables": ("Reading tables", {"tidegate": "read", "tidegate.tables.result": "Tables"}),
    "airflow": (
        "Airflow",
        {
            "tidegate.airflow": "checkpoint_dag restore_dag maintenance_dag watch_dag sink_asset "
            "TriggerCheckpointOperator SnapshotOperator AcknowledgeCheckpointSensor ValidateCheckpointOperator "
            "FinalizeCheckpointOperator NotifyCheckpointOperator AbortCheckpointOperator RestoreOperator CleanOperator "
            "WatchOperator"
        },
    ),
    "state": (
        "State and savepoints",
        {
            "tidegate.state": "read options",
            "tidegate.savepoint": "edit create SavepointEdit Written",
            "tidegate.spark.state_source": "register_state_source",
            "tidegate.spark.session.sessions": "open_session SparkSettings",
        },
    ),
    "own-connectors": (
        "Sources and sinks of your own",
        {
            "tidegate": "StagedParquet RangeSource",
            "tidegate.ports": "Source Segment SourceContext Snapshot BacklogSource LaggingSource Pending "
            "ListingSource RereadingSource ReadSince ReplaceableSource ReadPiece PieceVersion QuarantiningSource "
            "SkippingSource Skipped DiscoveringSource CheckedSource ArrowSource ArrowReader LeftToSparkError Sink "
            "SinkInput SinkCommit SinkWriter StageContext StateHandle HandleKind CommitAttempt CommittingSink "
            "GroupedSink Participant CommitStatements StatementError RewindableSink RewindableGroupedSink Branch "
            "Withdrawn ReadableSink ReadableAtSink TableFiles ReferencingSink ArrowSink ArrowRows TypedSink OwnedSink "
            "StagingSink NumberedSink JournalingSink DirectorySink EvolvingSink SelectingSink PositionedSink "
            "LingeringSink PortableSink PlacedSink KeyedSink CheckpointStorage ReadableStorage",
        },
    ),
    "testing": (
        "Tests of your own sinks, sources and pipelines",
        {"tidegate.testing": "SinkSuite SourceSuite crash_test CrashReport"},
    ),
    "errors": ("Errors", {"tidegate": "CheckpointError", ERRORS: ""}),  # and all others of that module
}

#: Classes whose methods users call or write, all of them or some. Those of other classes are for the library itself, or
#: keep a contract, which is shown; the methods of contracts are shown anyway.
WITH_METHODS = {
    "Pipeline": "",
    "Stream": "",
    "KeyedStream": "",
    "CheckpointListener": "",
    "SavepointEdit": "",
    "ParquetSink": "table",
    "Tables": "",
    "StagedParquet": "commit describe batches staged_in",
    "SinkSuite": "sink shown row commit",
    "SourceSuite": "source arrive row",
    "RangeSource": "latest read_between describe size has_ended divide",
    "SparkSettings": "from_environment",
}


@dataclass(frozen=True)
class Entry:
    """A public name, and what it stands for. `module` is where it is imported from."""

    module: str
    name: str
    described: griffe.Class | griffe.Function

    @property
    def title(self) -> str:
        """`tidegate.read` and `tidegate.state.read` are written so, too."""
        whole = self.name == "read" or self.module in ("tidegate.state", "tidegate.savepoint")
        return f"{self.module}.{self.name}" if whole else self.name

    @property
    def is_error(self) -> bool:
        return self.described.path.startswith(ERRORS)


@cache
def package() -> griffe.Object:
    return griffe.load(
        "tidegate", search_paths=[str(ROOT / "include")], docstring_parser="google", resolve_aliases=True
    )


@cache
def entries() -> Mapping[str, list[Entry]]:
    """The public names of each page, in their order."""
    found: dict[str, list[Entry]] = {}
    for page, (_, modules) in PAGES.items():
        found[page] = []
        for module, names in modules.items():
            scope = package() if module == "tidegate" else package()[module.removeprefix("tidegate.")]
            others = [name for name, one in scope.classes.items() if not one.is_alias and name != "CheckpointError"]
            for name in names.split() or others:
                described = scope[name].final_target if scope[name].is_alias else scope[name]
                found[page].append(Entry(module, name, described))
    return found


def parameters(described: griffe.Object) -> list[griffe.Parameter]:
    """What a caller gives. The parameters of a base class are among them where `**kwargs` are handed on to it."""
    given = [each for each in getattr(described, "parameters", ()) if each.name not in ("self", "cls")]
    bases = _bases(described)
    if isinstance(described, griffe.Class) and "__init__" not in described.members and not given:
        return parameters(bases[0]) if bases else []
    if given and bases and given[-1].kind is griffe.ParameterKind.var_keyword:
        inherited = [each for each in parameters(bases[0]) if each.name not in {one.name for one in given[:-1]}]
        return [*given[:-1], *inherited]
    return given


def _bases(described: griffe.Object) -> list[griffe.Class]:
    return described.mro() if isinstance(described, griffe.Class) else []  # those of the library


def sections(described: griffe.Object) -> list[griffe.DocstringSection]:
    return described.docstring.parsed if described.docstring else []


def said(described: griffe.Object, kind: str) -> dict[str, str]:
    """What the docstring says of parameters, attributes or errors, by name; of inherited parameters, too."""
    found: dict[str, str] = {}
    for each in (*reversed(_bases(described) if kind == "parameters" else []), described):
        for section in sections(each):
            if section.kind.value == kind:
                found |= {
                    str(item.annotation if kind == "raises" else item.name).lstrip("*"): item.description
                    for item in section.value
                }
    return found


def attributes(described: griffe.Object) -> dict[str, str]:
    """What is said of attributes, in a list or below each. A class that is made by its caller has parameters."""
    fields = {name: each for name, each in described.attributes.items() if each.docstring and not is_property(each)}
    return said(described, "attributes") or {name: each.docstring.value for name, each in fields.items()}


def default_of(value: str | griffe.Expr) -> str:
    """A default as text, with the value of a constant of the library."""
    path = value.canonical_path if isinstance(value, griffe.ExprName) else ""
    if path.startswith("tidegate."):
        return str(package()[path.removeprefix("tidegate.")].value)
    return str(value)


def is_property(described: griffe.Object) -> bool:
    return isinstance(described, griffe.Attribute) and "property" in described.labels


def members(entry: Entry) -> Iterator[griffe.Object]:
    """The methods and properties of a class that are shown; inherited ones if they are named."""
    if entry.module != "tidegate.ports" and entry.name not in WITH_METHODS:
        return
    named = WITH_METHODS.get(entry.name, "").split()
    for name, member in (entry.described.all_members if named else entry.described.members).items():
        is_shown = name in named or not named
        if is_shown and not name.startswith("_") and (member.is_function or is_property(member)):
            yield member.final_target if member.is_alias else member


def examples() -> Iterator[tuple[str, str]]:
    """The code of every example, by the name that has it."""
    for entry in (entry for listed in entries().values() for entry in listed):
        for described in (entry.described, *members(entry)):
            text = described.docstring.value if described.docstring else ""
            for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
                yield described.path, dedent(code)
