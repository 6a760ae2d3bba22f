"""error-messages.md says what users see who make a mistake: all are made here, and the page is what was seen.

`MISTAKES=write` writes the page anew (`make mistakes`).
"""

import importlib
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from commands import Command, CommandHere, environment_of
from kafka_brokers import VARIABLE
from mistakes import asked, delivered, topics, written

from tidegate.cli.exit_codes import exit_code_of
from tidegate.pipeline.graph import compile_graph
from tidegate.project.registered import load_pipeline
from tidegate.protocol.facts.errors import CheckpointError

PAGE = Path(__file__).parents[2] / "docs/reference/error-messages.md"
GROUPS = {
    "The graph of a pipeline": written.GRAPH,
    "Operators": written.OPERATORS,
    "Expectations": written.EXPECTATIONS,
    "Sources and sinks": written.SOURCES,
    "Options of checkpoints": written.OPTIONS,
}
COMMANDS, DATA, TOPICS = "Commands", "Data and functions", "Topics that are written"
HEAD = "| what is wrong | what one writes | what one sees | exit code |\n|---|---|---|---|\n"


def sections(page):
    """The tables of the page by their headings."""
    return dict(re.findall(r"^## (.*)\n\n(?:[^|].*\n+)*((?:\|.*\n)+)", page, re.MULTILINE))


def row(wrong, wrote, saw, code):
    wrote = "<br>".join(f"`{line}`" for line in wrote.splitlines() if line)
    cells = (wrong, wrote, " ".join(saw.split()), str(code))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def agrees(title, rows):
    """Holds the page against what was seen, or writes that into it."""
    page, table = PAGE.read_text(), HEAD + "".join(rows)
    if os.environ.get("MISTAKES") == "write":
        before, heading, after = page.partition(f"## {title}\n")
        PAGE.write_text(before + heading + after.replace(sections(page)[title], table, 1))
    assert sections(PAGE.read_text())[title] == table


def seen(text, home):
    """Without what differs from one machine or moment to the next."""
    text = text.replace(str(home), "/home/shop").replace(str(Path(sys.prefix)), "/venv")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( UTC)?", "…", text)
    text = re.sub(r"(unexpected keyword argument '\w+')\. Did you mean '\w+'\?", r"\1.", text)  # Python 3.13 asks
    return re.sub(r"(Checkpoint \d+|Pipeline \w+): [a-z S]+\n", "", text)


def loaded(lines, home, monkeypatch):
    """What importing and compiling a pipeline raises, and the exit code of a command that meets it."""
    (home / "pipelines.py").write_text(written.BEFORE + lines + "\n")
    monkeypatch.delitem(sys.modules, "pipelines", raising=False)
    importlib.invalidate_caches()
    with pytest.raises(CheckpointError) as raised:
        compile_graph(load_pipeline("pipelines:shop"))
    error = raised.value
    return f"{type(error).__name__} {error}", int(exit_code_of(error))


@pytest.mark.parametrize("title", GROUPS)
def test_what_is_wrong_in_a_definition_is_said(title, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    rows = []
    for wrong, lines in GROUPS[title]:
        saw, code = loaded(lines, tmp_path, monkeypatch)
        assert code == 2, (wrong, saw)
        rows.append(row(wrong, lines, seen(saw, tmp_path), code))
    agrees(title, rows)


def test_what_is_wrong_in_a_command_is_said(tmp_path, postgres_url):
    for name, text in asked.HERE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    here = CommandHere(tmp_path, environment_of(tmp_path, postgres_url))
    rows = []
    for wrong, command, environment in asked.COMMANDS:
        ended = here(*command.split()[1:], **dict(environment))
        assert ended.returncode > 0, wrong
        assert "Traceback" not in ended.stderr
        assert "secret" not in ended.stderr
        wrote = "".join(f"{name}={value}\n" for name, value in environment) + command
        rows.append(row(wrong, wrote, seen(_without_frames(ended.stderr), tmp_path), ended.returncode))
    agrees(COMMANDS, rows)


def _without_frames(text):
    """Of a usage error, the sentence in the box."""
    boxed = re.findall(r"│ (.*?) +│", text)
    return " ".join(boxed) if boxed else text


@pytest.mark.long
@pytest.mark.spark
def test_what_is_wrong_in_data_is_said(tmp_path, postgres_url, connect_server, quick_python):
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, environment, quick_python)
    agrees(DATA, rows_seen(delivered.PIPELINES, delivered.MISTAKES, command, tmp_path))


@pytest.mark.long
@pytest.mark.spark
def test_what_is_wrong_with_a_topic_is_said(tmp_path, postgres_url, connect_server, quick_python, kafka_server):
    for name, settings in topics.TOPICS.items():
        kafka_server.topic(1, name, **settings)
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, environment | {VARIABLE: kafka_server.variable}, quick_python)
    agrees(TOPICS, rows_seen(topics.PIPELINES, topics.MISTAKES, command, tmp_path))


def rows_seen(pipelines, mistakes, command, tmp_path):
    """What the commands print on the pipelines, each with its files."""
    (tmp_path / "shop.py").write_text(pipelines)
    rows = []
    for wrong, wrote, files, latin1, link in mistakes:
        shutil.rmtree(tmp_path / "landing", ignore_errors=True)
        for name, text in files.items():
            path = tmp_path / "landing" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "latin-1" if latin1 else "utf-8")
        if link is not None:
            (tmp_path / "landing" / link[0]).symlink_to(link[1])
        _, verb, name = wrote.split()
        ended = command(verb, f"shop:{name}")
        assert ended.returncode > 0, wrong
        said = ended.stderr + (ended.stdout if verb == "check" else "")
        assert "Traceback" not in said
        assert "JVM stacktrace" not in said
        rows.append(row(wrong, wrote, seen(said, tmp_path), ended.returncode))
    return rows


def test_the_page_has_no_other_tables():
    found = sections(PAGE.read_text())
    assert list(found) == [*GROUPS, COMMANDS, DATA, TOPICS]
    assert sum(table.count("\n") - 2 for table in found.values()) >= 80
