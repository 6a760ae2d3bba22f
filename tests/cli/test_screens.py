"""What the commands show, on a terminal of 80 columns and to other programs: kept in screens/, and compared.

`SCREENS=write` writes them anew (`make screens`).
"""

import os
from pathlib import Path

import pytest
from commands import CommandHere, environment_of
from made_documents import DRAWN
from rich.cells import cell_len
from screen_world import fill

from tidegate.cli.console import PlainConsole

SCREENS = Path(__file__).parent / "screens"
WIDTHS = ("80", "piped")
#: By the name of the screen, what is typed.
TYPED = {
    "checkpoints": "checkpoints flight_delays",
    "checkpoint-completed": "checkpoint flight_delays 6",
    "checkpoint-failed": "checkpoint flight_delays 8",
    "checkpoint-in-progress": "checkpoint flight_delays 9",
    "stats": "stats flight_delays",
    "savepoints": "savepoints shown:pipeline",
    "pipelines": "pipelines",
    "audit": "audit flight_delays",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory, postgres_server, databases):
    home, name = tmp_path_factory.mktemp("screens"), databases.take()
    url = postgres_server.url(name)
    fill(home, url)
    yield CommandHere(home, environment_of(home, url) | {"NO_COLOR": "1", "TERM": "dumb"}), home
    databases.give_back(name)


def agrees(name, width, shown):
    """Holds a screen against what is kept of it, or keeps it."""
    if width == "80":
        shown = "".join(f"{line.rstrip()}\n" for line in shown.splitlines())
    kept = SCREENS / f"{name}.{width}.txt"
    if os.environ.get("SCREENS") == "write":
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(shown)
    assert kept.read_text() == shown
    if width == "80":
        assert max(map(cell_len, shown.splitlines())) <= 80
    else:
        assert "…" not in shown
        assert not any(line.endswith(" ") for line in shown.splitlines())


@pytest.mark.parametrize("width", WIDTHS)
def test_what_commands_show_is_what_is_kept(here, width):
    command, home = here
    terminal = {"COLUMNS": "80", "FORCE_COLOR": "1"} if width == "80" else {}
    for name, typed in TYPED.items():
        ended = command(*typed.split(), **terminal)
        assert ended.returncode == 0, ended.stderr
        agrees(name, width, ended.stdout.replace(str(home), "/home/ada"))


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_drawn_of_documents_is_what_is_kept(width, tmp_path):
    """Of commands that need Spark, a lost database or another machine."""
    for name, (draw, document) in DRAWN.items():
        file = tmp_path / name
        with file.open("w") as out:
            options = {"width": 80, "force_terminal": True, "color_system": None} if width == "80" else {}
            PlainConsole(file=out, **options).print(draw(document))
        agrees(name, width, file.read_text())


def test_nothing_is_kept_that_is_not_shown():
    names = {f"{name}.{width}.txt" for name in (*TYPED, *DRAWN) for width in WIDTHS}
    assert {path.name for path in SCREENS.iterdir()} == names
