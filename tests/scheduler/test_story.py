"""A story that the pages tell of a real Airflow: a batch that is stopped, seen and corrected, one that waits for a
person, and one that is taken back."""

from urllib.parse import unquote

import pytest
from live_airflow import PATIENCE, restored, wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(1200)]


def ended(world, page):
    """The state in which the DAG run ends that the page says it has started."""
    page.locator("#answer.good", has_text="of DAG walked is started").wait_for()
    followed = unquote(page.locator("#answer a").get_attribute("href"))
    return world.api.wait("walked", followed.rpartition("/")[2], PATIENCE)


@pytest.mark.long
def test_a_bad_batch_is_stopped_and_seen_and_corrected_and_a_held_one_is_approved(world, airflow_page):
    world.lay("batch", ("good", 1), ("bad", -7), pipeline="walked")
    run_id, state = world.run("walked")
    assert (state, world.states(run_id, "walked")["validate"]) == ("failed", "failed")
    page, failed = airflow_page, world.checkpoints("walked")[0].checkpoint_id

    page.goto(f"{world.stack.url}/tidegate/")  # what needs somebody comes first
    first = page.locator("tbody tr.needs", has=page.get_by_role("link", name="walked", exact=True)).first
    assert "The latest checkpoint failed" in first.inner_text()
    first.get_by_role("link", name="walked", exact=True).first.click()
    page.get_by_role("link", name="Show failed checkpoints").click()
    page.locator("tbody").get_by_role("link", name=str(failed), exact=True).click()
    notice = page.locator(".notice.fails")
    notice.wait_for()
    assert all(each in notice.inner_text() for each in ("VALIDATION_FAILED", "expectation"))
    verdicts = page.locator("#verdicts")
    assert "failed" in verdicts.locator("h3 .pill").first.inner_text()
    verdicts.get_by_text("1 rows").click()
    assert all(each in verdicts.locator("details").inner_text() for each in ("bad", "-7"))
    assert page.get_by_role("link", name="validate", exact=True).is_visible()  # its log
    assert not {"good", "bad"} & {k for k, _ in world.rows("walked")}

    world.lay("batch", ("good", 1), ("bad", 7), pipeline="walked")
    page.goto(f"{world.stack.url}/tidegate/pipelines/walked")
    page.get_by_role("button", name="Take a checkpoint").click()
    assert ended(world, page) == "success"
    completed = world.checkpoints("walked")[0].checkpoint_id
    page.locator(".figures").get_by_role("link", name=str(completed), exact=True).first.wait_for()
    assert page.locator(".notice.fails").count() == 0
    assert {("good", 1), ("bad", 7)} <= set(world.rows("walked"))

    world.lay("unusual", ("unusual", 500), pipeline="walked")
    run_id = world.api.trigger("walked")
    page.get_by_text("waits for approval").first.wait_for(timeout=PATIENCE * 1000)  # the page follows
    page.locator(".notice").get_by_role("link").first.click()
    page.get_by_text("A failed verdict waits for approval").wait_for()
    page.get_by_label("Comment").fill("It is right.")
    page.get_by_role("button", name="Approve").click()
    page.locator("#answer.good").wait_for()
    assert world.api.wait("walked", run_id, PATIENCE) == "success"
    page.locator("h1 + .pill", has_text="COMPLETED").wait_for()
    assert "by admin" in page.locator("#verdicts").inner_text()
    assert ("unusual", 500) in world.rows("walked")


@pytest.mark.long
def test_a_savepoint_is_taken_restored_and_the_restore_undone_from_the_browser(world, airflow_page):
    """A restore is answered when it is recorded; the tables follow."""
    world.lay("kept", ("kept", 1), pipeline="walked")
    assert world.run("walked")[1] == "success"
    page, pipeline = airflow_page, f"{world.stack.url}/tidegate/pipelines/walked"

    page.goto(pipeline)
    page.get_by_text("Savepoint or stop …").click()
    form = page.locator("#form-savepoint")
    form.get_by_label("Name").fill("before the change")
    form.get_by_role("button", name="Take a savepoint").click()
    assert ended(world, page) == "success"
    savepoint = world.checkpoints("walked")[0]
    assert (savepoint.name, savepoint.kind) == ("before the change", "SAVEPOINT")
    world.lay("wrong", ("wrong", 8), pipeline="walked")
    assert world.run("walked")[1] == "success"
    wrong = world.checkpoints("walked")[0].checkpoint_id
    assert "wrong" in world.totals("walked")

    page.goto(f"{pipeline}/checkpoints/{savepoint.checkpoint_id}")
    page.get_by_text("Restore to this savepoint …").click()
    page.get_by_role("button", name="Show the plan").click()
    confirm = page.get_by_role("button", name=f"Restore to checkpoint {savepoint.checkpoint_id}")
    confirm.wait_for()
    shown = page.locator("#plan").inner_text()
    assert all(word in shown for word in ("Left behind", str(wrong), "numbers", "totals", "before the change"))
    assert "wrong" in world.totals("walked")
    confirm.click()
    page.locator("#result", has_text=f"was restored to checkpoint {savepoint.checkpoint_id}").wait_for()
    wait_for(lambda: "wrong" not in world.totals("walked"), lambda: world.totals("walked"))
    assert "kept" in world.totals("walked")

    page.goto(pipeline)
    page.get_by_text("Undo the restore …").click()
    restored(page, "Undo the restore")
    wait_for(lambda: "wrong" in world.totals("walked"), lambda: world.totals("walked"))
    page.get_by_role("link", name="audit", exact=True).click()
    rows = page.locator("tbody tr")
    rows.first.wait_for()
    told = [row.split("\t")[1] for row in rows.all_inner_texts()]
    assert told[:2] == ["UNDO", "RESTORE"]
    assert "SAVEPOINT" in told
    assert "admin" in rows.first.inner_text()
