"""docs/schemas/ describes what commands print with `-o json`. `tests/support/commands.py` holds whatever any test sees
of it against its schema.

`SCHEMAS=write` writes them anew (`make schemas`).
"""

import json
import os

import pytest
import typer
from cases import for_each
from commands import SCHEMAS, CommandHere, environment_of, require_described
from jsonschema import Draft202012Validator
from made_documents import DRAWN
from screen_world import NAME, fill

from tidegate.cli.main import app
from tidegate.documents.command_models import COMMANDS, schema_of
from tidegate.reading.answer import to_json


def with_json(group, before=""):
    """Every command that takes `-o json`, by the name of its schema."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from with_json(command, f"{before}{name}-")
        elif any("--output" in parameter.opts for parameter in command.params):
            yield f"{before}{name}"


def test_every_command_with_json_has_a_schema_and_no_other():
    assert sorted(with_json(typer.main.get_command(app))) == sorted(COMMANDS)
    if os.environ.get("SCHEMAS") != "write":
        assert sorted(path.stem for path in SCHEMAS.glob("*.json")) == sorted(COMMANDS)


@for_each("command", COMMANDS)
def test_a_schema_is_that_of_the_code(command):
    text = json.dumps(schema_of(command), indent=1) + "\n"
    file = SCHEMAS / f"{command}.json"
    if os.environ.get("SCHEMAS") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert file.read_text() == text
    Draft202012Validator.check_schema(json.loads(text))


#: Those that need neither Spark nor a project's past are run here; the others where they are tested.
TYPED = (
    f"checkpoints {NAME}",
    f"checkpoint {NAME} 6",
    f"checkpoint {NAME} 8",
    f"stats {NAME}",
    "savepoints shown:pipeline",
    "savepoint shown:pipeline before-migration",
    "pipelines",
    "audit",
    "doctor",
    "db status",
    "watch shown:pipeline --once",
    f"suspend {NAME}",
    f"resume {NAME}",
    f"rename {NAME} before-migration kept",
    "relocate shown:pipeline",
)


def test_what_commands_print_is_described(tmp_path, postgres_url):
    fill(tmp_path, postgres_url)
    here = CommandHere(tmp_path, environment_of(tmp_path, postgres_url))
    for typed in TYPED:
        ended = here(*typed.split(), "-o", "json")  # which is held against the schema
        assert json.loads(ended.stdout), (typed, ended.stderr)


def test_what_is_not_described_is_noticed():
    with pytest.raises(AssertionError, match="tidegate check: "):
        require_described(["check", "shop", "-o", "json"], '{"pipeline": "shop", "problems": [], "more": 1}')


@for_each("name", ["state", "state-diff", "state-history", "compare", "doctor", "db-status", "watch"])
def test_the_documents_of_the_screens_are_such_documents(name):
    command = name if name in COMMANDS else name.partition("-")[0]
    Draft202012Validator(schema_of(command)).validate(json.loads(to_json(DRAWN[name][1])))
