"""What views print may hold values from data: they are shown, and never obeyed, neither by the terminal nor by Rich."""

import io
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest
from answers import details_of, no_checkpoints
from records import T0, record

from tidegate.cli import views
from tidegate.cli.checkpoint_page import checkpoint_page
from tidegate.cli.console import PlainConsole
from tidegate.cli.log_lines import log_to
from tidegate.documents.command_models import Statistics, Taken
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Verdict
from tidegate.reading.lag_answers import Lag, PartLag

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\udc80\u202e[link=file:///x]a[/link] [/nothing] [bold]"


def lag(pending, unit, size):
    return Lag(pending=pending, unit=unit, bytes=size, polled_at=T0)


def printed(renderable):
    out = io.StringIO()
    PlainConsole(file=out, width=400, force_terminal=True, color_system=None).print(renderable)
    return out.getvalue()


def test_what_is_logged_into_a_file_has_no_blanks_at_its_end_and_controls_nothing():
    out = io.StringIO()
    handler = log_to(PlainConsole(file=out))
    handler.emit(logging.makeLogRecord({"msg": "Checkpoint %s of %s", "args": (7, "a\x1b[2Jb"), "levelname": "INFO"}))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO     Checkpoint 7 of a\ufffd\[2Jb\n", out.getvalue())


def test_no_screen_for_programs_is_padded():
    screens = Path(__file__).parent / "screens"
    lines = [line for screen in screens.glob("*.piped.txt") for line in screen.read_text().splitlines()]
    assert lines
    assert [line for line in lines if line.endswith("   ")] == []


@pytest.mark.parametrize("field", ["failure", "verdict", "pipeline"])
def test_a_value_from_data_does_not_control_the_terminal(field):
    if field == "pipeline":
        behind = PartLag(source=HOSTILE, part=HOSTILE, pending=2, unit=HOSTILE)
        found = Statistics(**dict(no_checkpoints("FAILED", HOSTILE)), lag=(lag(2, HOSTILE, 1500),), parts=(behind,))
        shown = printed(views.statistics_tables(found))
    else:
        failed = record(
            1, status=Status.FAILED, failed_at=T0, failure_reason=FailureReason.TASK_FAILURE, failure_message=HOSTILE
        )
        verdicts = (
            [Verdict(Target.parse("sink:out"), "[bold]", None, 0, 0, error=HOSTILE)] if field == "verdict" else []
        )
        known = failed if field == "failure" else replace(failed, failure_message="it broke")
        shown = printed(checkpoint_page(details_of(known, verdicts=verdicts)))
    assert all(word in shown for word in ("owned", "[/nothing]", "[bold]"))
    assert not set(shown) & set("\x1b\x07\x9b\r\x08\udc80\u202e")


def test_lag_is_said_in_what_the_sources_count_in():
    at = views.moment(T0)
    assert views.lag_text([lag(1, "files", 1500), lag(1200, "rows", -1), lag(0, "messages", 0)]).plain == (
        f"Lag: 1 file, 1.5 kB, polled at {at}; 1,200 rows, polled at {at}; 0 messages, polled at {at}."
    )
    assert views.lag_text([]).plain == "Lag: no source has reported any."


def test_styles_are_still_styles():
    out = io.StringIO()
    PlainConsole(file=out, force_terminal=True, color_system="standard").print("[bold red]no[/]")
    assert out.getvalue() == "\x1b[1;31mno\x1b[0m\n"


def test_a_pipeline_without_a_sink_is_not_shown_as_an_empty_table():
    shown = printed(views.run_table(Taken.model_construct(id=1, status="COMPLETED", sinks=[])))
    assert "no sink, so nothing is delivered" in shown
    assert "Guarantee" not in shown
