"""Every code block and command of README and docs is run, and prints what the document says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from cases import for_each
from footprints import footprint
from kafka_brokers import VARIABLE
from quick_python import make_environment
from run_document import LANGUAGES
from typer.core import TyperGroup
from typer.exceptions import TyperException

from tidegate.cli.main import app
from tidegate.embedded_postgres.server import EmbeddedPostgres

PROJECT = Path(__file__).parents[2]
DOCUMENTS = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "benchmarks").glob("*.md")),
]
#: Those with blocks that are run. The examples of the reference are run by test_reference.py.
RUN = [each for each in DOCUMENTS if "\n```" in each.read_text() and each.parent.name != "api"]
CLONED = ("Makefile", "requirements.txt", "pyproject.toml", "dags", "plugins", ".env.example")
COMMANDS = typer.main.get_command(app)
#: By document, the footprint with which `make documents` ran it.
RAN = Path(__file__).with_name("ran.json")


@pytest.fixture
def clone(tmp_path):
    """A directory as a reader has it: the project's files, and nothing that somebody has run before."""
    for name in CLONED:
        (tmp_path / name).symlink_to(PROJECT / name)
    yield tmp_path
    for lock in tmp_path.rglob("postgres/lock"):
        EmbeddedPostgres(lock.parent).remove()


def fences(document):
    return re.findall(r"^```(\S*)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)


def name_of(path):
    return str(path.relative_to(PROJECT))


def to_run():
    """`make test` runs those that are not as they were run last, and always the first page."""
    ran = json.loads(RAN.read_text()) if RAN.exists() else {}
    for document in RUN:
        as_ran = document.name != "README.md" and ran.get(name_of(document)) == footprint(document, COMMANDS)
        yield pytest.param(document, id=name_of(document), marks=[pytest.mark.long] if as_ran else [])


@pytest.mark.spark
@pytest.mark.parametrize("document", list(to_run()))
def test_the_blocks_of_a_document_run_one_after_the_other(document, clone, connect_server, quick_python, request):
    """On a Spark that runs and in a Python that does, which saves each command the start of a JVM and, but for the
    first of its kind, the imports. It saves the blocks them, too. Buckets and topics are of the run's
    own servers."""
    blocks = [block for language, block in fences(document) if language == "python"]
    if any("s3://" in block for block in blocks):
        request.getfixturevalue("s3_server")
    variables = {"TIDEGATE_SPARK_REMOTE": connect_server}
    if any("Kafka" in block for block in blocks):
        variables[VARIABLE] = request.getfixturevalue("kafka_server").variable
    make_environment(clone / ".venv", quick_python)
    run_blocks(document, clone, quick_python, variables)
    if os.environ.get("DOCUMENTS") == "write":
        ran = json.loads(RAN.read_text()) if RAN.exists() else {}
        now = {name_of(each) for each in RUN}
        ran = {name: print_ for name, print_ in ran.items() if name in now}
        RAN.write_text(
            json.dumps({**ran, name_of(document): footprint(document, COMMANDS)}, indent=1, sort_keys=True) + "\n"
        )


@pytest.mark.long
@pytest.mark.spark
def test_the_blocks_of_the_readme_run_as_its_reader_runs_them(clone):
    (clone / ".venv").symlink_to(sys.prefix)
    run_blocks(PROJECT / "README.md", clone, [sys.executable], {})


def run_blocks(document, clone, python, variables):
    support = PROJECT / "tests" / "support"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "AIRFLOW_"))}
    environment |= {"HOME": str(clone / ".home"), "PWD": str(clone), "COLUMNS": "100", **variables}
    reader = subprocess.Popen(
        [*python, str(support / "run_document.py"), str(document)],
        cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        printed, _ = reader.communicate(timeout=500)
    finally:
        reader.terminate()  # with its shell, and what that has started
        reader.wait()
    assert reader.returncode == 0, printed


@for_each("document", DOCUMENTS, ids=name_of)
def test_a_block_says_what_it_is(document):
    assert {language for language, _ in fences(document)} <= set(LANGUAGES)


def mentioned():
    """Every command in backticks, from documents and from what the code says."""
    code = [path for folder in ("include", "examples") for path in (PROJECT / folder).rglob("*.py")]
    for path in (*DOCUMENTS, *sorted(code)):
        if path.name == "error-messages.md":
            continue  # there they are wrong on purpose
        for command in sorted(set(re.findall(r"`((?:tidegate|make) [^`\n\"]+)`", path.read_text()))):
            yield pytest.param(command, id=f"{path.relative_to(PROJECT)}:{command}")


@for_each("command", list(mentioned()))
def test_a_command_that_is_mentioned_exists(command):
    look_for(command)


@for_each("command", ["tidegate rum", "tidegate db upgrate", "tidegate run --continuos", "make demonstration"])
def test_a_command_that_does_not_exist_is_noticed(command):
    with pytest.raises((AssertionError, TyperException)):
        look_for(command)


def look_for(command):
    name, *arguments = [_filled(word) for word in shlex.split(command) if word not in ("…", "COMMAND", "--help")]
    if name == "make":
        target = next(word for word in arguments if "=" not in word)
        assert re.search(rf"^{target}:", (PROJECT / "Makefile").read_text(), re.MULTILINE)
        return
    found, context = COMMANDS, typer.Context(COMMANDS, info_name=name)
    while isinstance(found, TyperGroup) and arguments and not arguments[0].startswith("-"):
        found = found.get_command(context, arguments.pop(0))
        assert found is not None
    try:
        found.make_context(name, arguments, parent=context)
    except TyperException as error:
        # `tidegate db …`, `tidegate run --continuous`, `tidegate restore --from`: a mention may leave the rest out.
        left_out = type(error).__name__ in ("NoArgsIsHelpError", "MissingParameter")
        if not left_out and "requires an argument" not in str(error):
            raise


def _filled(word):
    """What stands for a value: an ID is a number."""
    if word == "{option}":
        return "--undo"
    return "1" if word in ("ID", "[ID]", "N", "{id_}") else re.sub(r"\{.*?\}", "orders", word)


def linked():
    """Every file that a document links to, with the function it is linked for, if any."""
    for document in DOCUMENTS:
        for name, target in re.findall(r"\[(`?[^\]]*`?)\]\(((?!https?:|#)[^)#]+)[^)]*\)", document.read_text()):
            yield pytest.param(document.parent / target, name, id=f"{document.relative_to(PROJECT)}:{name}:{target}")


@for_each(("target", "name"), list(linked()))
def test_what_a_document_links_to_is_there(target, name):
    assert target.exists()
    if target.suffix == ".py" and name.startswith("`"):
        assert re.search(rf"^ *(def|class) {name.strip('`')}\b", target.read_text(), re.MULTILINE)


#: "section 5.1", "sections 2, 3 and 4", "sections 10 to 12": in all that is written here, one of protocol.md.
CITED = re.compile(r"\b[Ss]ections? (\d+(?:\.\d+)?(?:(?:, and |, | and | to )\d+(?:\.\d+)?)*)")


def prose():
    """What code, tests and documents say, by file, without the line breaks that a sentence may have."""
    code = [
        path
        for folder in ("include", "examples", "tests", "dags", "plugins")
        for path in (PROJECT / folder).rglob("*.py")
    ]
    for path in (*DOCUMENTS, *sorted(code)):
        yield path.relative_to(PROJECT), re.sub(r"\s*\n\s*(#:? )?", " ", path.read_text())


def cited_in(text):
    for listed in CITED.findall(text):
        yield from re.findall(r"\d+(?:\.\d+)?", listed)
        for first, last in re.findall(r"(\d+) to (\d+)", listed):
            yield from map(str, range(int(first), int(last)))


def test_a_section_that_is_cited_is_in_the_protocol():
    protocol = (PROJECT / "docs/reference/protocol.md").read_text()
    there = set(re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", protocol, re.MULTILINE))
    cited = {(section, path) for path, text in prose() for section in cited_in(text)}
    assert {"11.4", "13"} <= {section for section, _ in cited}
    missing = [f"section {section}, cited in {path}" for section, path in sorted(cited) if section not in there]
    assert not missing, f"docs/reference/protocol.md has no heading for {'; '.join(missing)}"


def test_a_document_that_is_mentioned_is_there():
    pages = {path.name for path in DOCUMENTS}
    missing = []
    for path, text in prose():
        for name in set(re.findall(r"(?<![\w/.-])[\w./-]*\w\.md\b", text)):
            if name not in pages and not any((PROJECT / below / name).exists() for below in (".", path.parent)):
                missing.append(f"{path} mentions {name}")
        for number in set(re.findall(r"\bdecisions/(\d+)\b", text)):
            if not list((PROJECT / "docs" / "decisions").glob(f"{number}-*.md")):
                missing.append(f"{path} mentions decisions/{number}")
    assert not missing, "; ".join(missing)


def test_the_first_page_is_short():
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 160
