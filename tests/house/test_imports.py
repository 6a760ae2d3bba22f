"""The rules of the house (architecture.md) about who imports what: one line a room, read from the source.

A rule that nothing can break holds nothing up: each is shown to refuse an import planted in its room.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from cases import for_each

ROOT = Path(__file__).parents[2] / "include" / "tidegate"
EXAMPLES = {path.name for path in (ROOT.parents[1] / "examples").iterdir()}
HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "great_expectations"}
DATABASE = {"sqlalchemy", "psycopg2"}
EFFECTS = {"os", "time", "random", "uuid", "logging", "socket", "subprocess", "threading", "pathlib"}


@dataclass(frozen=True)
class Room:
    """`rooms` it may import from, and the libraries it may not."""

    rooms: frozenset[str]
    refused: frozenset[str] = frozenset()


def room(rooms: str = "", *refused: set[str]) -> Room:
    return Room(frozenset(rooms.split()), frozenset().union(*refused))


AIRFLOW, SPARK, QUALITY = {"airflow"}, {"pyspark"}, {"great_expectations"}
ROOMS = {
    "protocol": room("", HEAVY, DATABASE, AIRFLOW, EFFECTS),
    "ports": room("protocol", HEAVY, DATABASE, AIRFLOW, EFFECTS),
    "pipeline": room("ports protocol settings", HEAVY, DATABASE, AIRFLOW),
    "coordination": room("pipeline ports protocol", HEAVY, DATABASE, AIRFLOW),
    "state": room("pipeline ports protocol settings", SPARK, {"pandas"}, DATABASE, QUALITY, AIRFLOW),
    "sources": room("ports protocol settings", DATABASE, QUALITY, AIRFLOW),
    "sinks": room("ports protocol settings state", DATABASE, QUALITY, AIRFLOW),
    "dataflow": room("pipeline ports protocol", HEAVY, DATABASE, AIRFLOW, {"time", "random", "uuid", "threading"}),
    "spark": room("dataflow pipeline ports protocol settings state", DATABASE, QUALITY, AIRFLOW),
    "quality": room("pipeline ports protocol settings", DATABASE, AIRFLOW),
    "postgres": room("ports protocol", HEAVY, AIRFLOW),
    "postgres_sink": room(
        "embedded_postgres ports postgres protocol settings sinks", SPARK, {"pandas"}, QUALITY, AIRFLOW
    ),
    "iceberg": room(
        "ports postgres postgres_sink protocol settings sinks sources state", SPARK, {"pandas"}, QUALITY, AIRFLOW
    ),
    "postgres_source": room(
        "ports postgres postgres_sink protocol settings sources", SPARK, {"pandas"}, QUALITY, AIRFLOW
    ),
    "kafka": room(
        "embedded_postgres ports postgres_sink protocol settings sinks sources state",
        SPARK,
        {"pandas"},
        QUALITY,
        AIRFLOW,
    ),
    "embedded_postgres": room("postgres protocol settings", HEAVY),
    "reading": room("ports postgres protocol", HEAVY, AIRFLOW),
    "documents": room("protocol reading", HEAVY, DATABASE, AIRFLOW),
    "reporting": room("pipeline ports protocol", HEAVY, DATABASE),
    "project": room("embedded_postgres pipeline ports postgres protocol settings spark state", HEAVY),
    "assembly": room(
        "clock coordination dataflow embedded_postgres pipeline ports postgres project protocol quality reading "
        "reporting settings spark state"
    ),
    "savepoint": room(
        "assembly clock coordination pipeline protocol quality settings spark state", HEAVY, DATABASE, AIRFLOW
    ),
    "tables": room(
        "assembly iceberg pipeline ports postgres_sink protocol reading settings sinks", DATABASE, QUALITY, AIRFLOW
    ),
    "ui": room("assembly coordination documents protocol reading settings", HEAVY, DATABASE),
    "airflow": room(
        "assembly coordination documents embedded_postgres pipeline postgres protocol reporting settings spark ui",
        HEAVY,
    ),
    "cli": room(
        "assembly coordination documents embedded_postgres pipeline ports postgres project protocol reading savepoint "
        "settings spark state ui",
        HEAVY,
    ),
    "testing": room(
        "assembly clock coordination embedded_postgres pipeline ports postgres_sink protocol settings spark state "
        "tables",
        AIRFLOW,
    ),
    "__main__": room("cli", HEAVY, DATABASE, AIRFLOW),
    "settings": room("protocol", HEAVY, DATABASE, AIRFLOW),
    "clock": room("", HEAVY, DATABASE, AIRFLOW),
}


#: Of its room's other files and folders, those that a folder inside a room may import.
INSIDE = {
    "protocol/facts": set(),
    "protocol/barriers": {"facts"},
    "protocol/subtask": {"barriers", "facts"},
    "protocol/text": {"facts"},
    "protocol/schema": {"facts", "text"},
    "protocol/continuous": {"facts"},
    "protocol/steps": {"barriers", "continuous", "facts", "schema", "text"},
    "protocol/observing": {"facts", "steps", "text"},
    "protocol/cleaning": {"continuous", "facts", "steps"},
    "protocol/recovery": {"facts", "observing", "schema", "steps"},
    "coordination/observing": {"context"},
    "coordination/steps": {"context", "observing"},
    "coordination/cleaning": {"context", "observing", "steps"},
    "coordination/recovery": {"cleaning", "context", "observing", "steps"},
    "coordination/continuous": {"coordinator", "steps"},
    "spark/driver": {"executor", "session"},
    "spark/executor": set(),
    "spark/session": set(),
}


def for_types(tree: ast.AST) -> set[int]:
    """The ids of the nodes below `if TYPE_CHECKING:`."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {id(inner) for block in blocks for inner in ast.walk(block)}


def imported(source: str, *, types: bool = True) -> Iterator[str]:
    """The modules that a file imports; without `types`, not those that are there for types alone."""
    tree = ast.parse(source)
    left_out = set() if types else for_types(tree)
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "tidegate":
            yield from (f"tidegate.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def files(*rooms: str) -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if room_of(path) in rooms]


def wrong(name: str, source: str) -> list[str]:
    """The imports that the rule of the room refuses. Types may come from any library: importing those never runs."""
    runs = set(imported(source, types=False))
    return [
        one
        for one in imported(source)
        if not _may(name, ROOMS[name], one) and (one in runs or one.startswith("tidegate."))
    ]


def _may(name: str, rule: Room, what: str) -> bool:
    top, _, rest = what.partition(".")
    if top != "tidegate" or not rest:
        return top not in rule.refused | EXAMPLES
    other = rest.partition(".")[0]
    return other == name or other in rule.rooms


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


#: They name for type checkers what is imported when it is first used (test_public_names.py).
PUBLIC = {ROOT / "__init__.py", ROOT / "state" / "__init__.py"}
ALL = [path for path in sorted(ROOT.rglob("*.py")) if path not in PUBLIC]


@for_each("path", ALL, ids=name_of)
def test_a_file_imports_what_its_room_may(path):
    assert wrong(room_of(path), path.read_text()) == []


@for_each("name", ROOMS)
def test_a_wrong_import_is_noticed(name):
    others = ROOMS.keys() - {name} - ROOMS[name].rooms
    for planted in [f"tidegate.{other}" for other in others] + sorted(ROOMS[name].refused | EXAMPLES):
        for line in (f"import {planted}.inner", f"def late():\n    from {planted} import anything"):
            assert wrong(name, line), line


def wrong_inside(folder, source):
    """The imports from its own room that the rule of the folder refuses. The room as a whole is refused, too: what is
    imported from there may be any of its parts."""
    name, _, own = folder.partition("/")
    within = (one.split(".")[2:] for one in imported(source) if one.split(".")[:2] == ["tidegate", name])
    return [".".join(parts) or name for parts in within if not parts or parts[0] not in INSIDE[folder] | {own}]


@for_each("folder", INSIDE)
def test_a_folder_inside_a_room_imports_what_it_may(folder):
    for path in (ROOT / folder).rglob("*.py"):
        assert wrong_inside(folder, path.read_text()) == [], path


@for_each("folder", INSIDE)
def test_a_wrong_import_inside_a_room_is_noticed(folder):
    name, _, own = folder.partition("/")
    parts = {path.name.removesuffix(".py") for path in (ROOT / name).iterdir()} - {"__init__", "__pycache__", own}
    assert parts >= INSIDE[folder]
    for other in parts - INSIDE[folder]:
        assert wrong_inside(folder, f"def late():\n    from tidegate.{name}.{other} import anything"), other
        assert wrong_inside(folder, f"from tidegate.{name} import {other}"), other


@for_each("name", ["protocol", "coordination", "spark"])
def test_every_folder_of_a_room_that_is_divided_has_a_rule(name):
    folders = {f"{name}/{path.parent.name}" for path in (ROOT / name).glob("*/__init__.py")}
    assert folders == {folder for folder in INSIDE if folder.startswith(f"{name}/")}


def test_an_executor_loads_nothing_that_only_the_driver_has():
    script = "import sys, tidegate.spark.executor.partitions; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not [
        name
        for name in loaded
        if name.startswith(
            ("tidegate.pipeline.definition", "tidegate.pipeline.streams", "tidegate.coordination", "pydantic")
        )
    ]


def test_arrows_between_rooms_go_one_way():
    order = list(TopologicalSorter({name: rule.rooms for name, rule in ROOMS.items()}).static_order())
    assert order.index("protocol") < order.index("pipeline") < order.index("coordination") < order.index("assembly")


def test_the_pipeline_of_an_example_needs_what_every_user_has():
    for path in (ROOT.parents[1] / "examples").glob("*/pipeline.py"):
        assert {name.rsplit(".", 1)[0] for name in imported(path.read_text())} <= {"tidegate", "pyspark"}


def module_of(path):
    return ".".join(("tidegate", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def imported_files(path, modules):
    """The files that a file imports, late imports included; what is there for types alone runs in no circle."""
    tree = ast.parse(path.read_text())
    typing = for_types(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in names)


def test_no_files_import_each_other_in_a_circle():
    modules = {module_of(path): path for path in ALL}
    graph = {name: set(imported_files(path, modules)) & modules.keys() - {name} for name, path in modules.items()}
    TopologicalSorter(graph).prepare()


def test_in_a_room_of_drawers_no_file_lies_about():
    assert [path.name for path in (ROOT / "protocol").glob("*.py")] == ["__init__.py"]
    assert {path.name for path in (ROOT / "coordination").glob("*.py")} == {
        *("__init__.py", "context.py", "coordinator.py", "operations.py", "all_operations.py")
    }


def test_at_the_top_stands_what_puts_the_rooms_together_and_nothing_else():
    assert {path.name for path in ROOT.glob("*.py")} == {*("__init__.py", "__main__.py", "assembly.py", "clock.py")}


@for_each(
    "path", [*sorted(ROOT.glob("*/__init__.py")), *(ROOT / folder / "__init__.py" for folder in INSIDE)], ids=name_of
)
def test_a_room_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@for_each("path", files("protocol"), ids=name_of)
def test_the_protocol_imports_the_standard_library_only(path):
    for name in imported(path.read_text()):
        assert name.startswith("tidegate.protocol") or name.split(".")[0] in sys.stdlib_module_names, name


@for_each("path", files("protocol"), ids=name_of)
def test_the_protocol_reads_no_clock(path):
    calls = {
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not calls & {"now", "today", "utcnow"}


@for_each(
    "module",
    ["tidegate", "tidegate.state", "tidegate.savepoint", "tidegate.ports", "tidegate.pipeline.definition",
     "tidegate.pipeline.graph", "tidegate.coordination.coordinator",
     "tidegate.assembly", "tidegate.sources.files", "tidegate.sinks.parquet", "tidegate.cli.main"],
)  # fmt: skip
def test_importing_what_a_dag_file_imports_loads_nothing_heavy(module):
    script = f"import sys, {module}; print(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_file_pickles():
    for path in ALL:
        names = {name.split(".")[0] for name in imported(path.read_text())}
        assert not {"pickle", "cloudpickle", "marshal", "shelve"} & names, path
