"""What is kept, why and at what cost; what is too old goes, and what is damaged is named. On every store."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cleanings import DAY, left_there, past_of_four, settle
from user_actions import dispose

from tidegate.protocol.cleaning.clean_report import Cost, reasons_text
from tidegate.protocol.facts.errors import PipelineIdentityError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import metadata_path
from tidegate.protocol.facts.records import Deletion


@pytest.fixture
def past(store):
    return lambda **config: past_of_four(store, **config)


def whys(report):
    return {kept.record.checkpoint_id: [str(reason.why) for reason in kept.reasons] for kept in report.kept}


def everything(world):
    """All that a cleaning may change."""
    history = [(record.checkpoint_id, record.status) for record in world.store.history("p", 99)]
    return dict(world.storage.files), dict(world.sink.staged), dict(world.sink.put_away), history


# -- age


def test_number_and_age_keep_each_for_itself(past):
    world = past(retained=2, retained_for="7 d")
    assert world.ids() == ([1, 2, 3, 4], [])
    world.clock.advance(7 * DAY - 1)
    world.coordinator.clean()
    assert world.ids() == ([1, 2, 3, 4], [])
    world.clock.advance(1)
    world.coordinator.clean()
    assert world.ids() == ([3, 4], [])
    assert "p/chk-1/_metadata" not in world.storage.files
    assert world.store.checkpoint("p", 1).status is Status.DISCARDED


def test_a_checkpoint_that_completes_lets_the_old_ones_go(past):
    world = past(retained_for="1 h")
    world.clock.advance(1800)
    world.take("r5")
    world.clock.advance(1801)
    world.take("r6")
    assert world.ids() == ([5, 6], [])


def test_savepoints_and_the_latest_never_expire(past):
    world = past(retained_for="1 h")
    world.take("mine", savepoint=True)
    world.take("r6")
    world.clock.advance(365 * DAY)
    world.coordinator.cleaning.clean()
    assert world.ids() == ([5, 6], [])


def test_a_checkpoint_in_progress_keeps_the_files_of_what_it_goes_on_from(past):
    world = past(retained_for="1 h")
    world.ask("r5")
    world.snapshot(5)
    world.clock.advance(300)
    world.coordinator.cleaning.clean()
    before = dict(world.storage.files)
    world.clock.advance(DAY)
    world.coordinator.cleaning.clean()
    assert {path for path in before.keys() - world.storage.files.keys() if "/op/" in path} == set()


# -- what is kept, why, and what it costs


def test_each_kept_checkpoint_has_its_reasons_and_its_cost(past):
    world = past(retained=2, undo_within="7 d")
    world.take("mine", savepoint=True)
    world.take("r6")
    world.restore(5)
    world.take("r7")
    report = world.coordinator.cleaning.plan()
    assert whys(report) == {
        4: ["RETAINED"],
        5: ["SAVEPOINT"],
        6: ["UNDO_UNTIL"],
        7: ["LATEST", "RETAINED"],
    }
    # Every checkpoint carries the runs of all that it follows; each run has three bytes.
    assert [(each.full, each.alone) for each in report.kept] == [
        (Cost(4, 12), Cost()),
        (Cost(5, 15), Cost()),
        (Cost(6, 18), Cost(1, 3)),
        (Cost(6, 18), Cost(1, 3)),
    ]
    assert report.total == Cost(7, 21)
    until = world.clock.now() + timedelta(days=7)
    assert [reasons_text(each) for each in report.kept] == [
        "retained", "savepoint 5", f"undo until {until:%Y-%m-%d %H:%M} UTC", "latest, retained",
    ]  # fmt: skip
    assert report.withdrawn == {"out": (6,)}
    assert (report.expired, report.garbage, report.damage, report.foreign) == ((), (), (), ())


def test_what_a_savepoint_alone_holds_is_what_becomes_free_when_it_goes(past):
    world = past()
    world.take("mine", savepoint=True)
    world.carried = 2
    for number in (6, 7, 8):
        world.take(f"r{number}")
    report = world.coordinator.cleaning.plan()
    (mine,) = [kept for kept in report.kept if kept.record.checkpoint_id == 5]
    before = {path for path in world.storage.files if "/op/" in path}
    dispose(world.coordinator, "5")
    freed = before - {path for path in world.storage.files if "/op/" in path}
    assert mine.alone.files == len(freed) > 0
    assert mine.alone.bytes == 3 * len(freed)


def test_a_plan_says_what_a_cleaning_then_does_and_changes_nothing(past):
    world = past(retained=1, retained_for="7 d", undo_within="1 d")
    world.restore(2)
    world.take("r5")
    settle(world)
    world.clock.advance(8 * DAY)
    left_there(world, "p/chk-1/op/0-1-zombie.parquet")
    before = everything(world)
    planned = world.coordinator.cleaning.plan()
    assert everything(world) == before
    assert [record.checkpoint_id for record in planned.expired] == [1, 2, 3, 4]
    assert planned.freed == Cost(2, 6)  # of 3 and 4: the others' runs are carried
    assert planned.garbage == (Deletion("storage", "p/chk-1/op/0-1-zombie.parquet"),)
    assert planned.withdrawn_for_good == {"out": (3, 4)}
    assert "To be deleted: checkpoints that are too old, 1, 2, 3, 4, with 2 files (6 bytes)." in "".join(
        planned.lines()
    )
    done = world.coordinator.cleaning.clean()
    assert done == replace(planned, changed=True)
    assert "To be" not in "".join(done.lines())
    assert world.ids() == ([5], [])
    assert world.sink.withdrawn() == []
    assert {path for path in world.storage.files if "/op/" in path} == {
        f"p/chk-{number}/op/0-1-x.parquet" for number in (1, 2, 5)
    }
    assert not world.coordinator.cleaning.plan().garbage


# -- damage


def test_damage_is_named_with_who_needs_it_and_nothing_is_changed(past):
    world = past(retained=3, retained_for="1 h")
    world.clock.advance(DAY)
    world.storage.files["p/chk-3/op/0-1-x.parquet"] = b"r0?"
    del world.storage.files[metadata_path("p", 2)]
    before = everything(world)
    report = world.coordinator.cleaning.clean()
    assert [(damage.path, damage.checkpoints) for damage in report.damage] == [
        ("p/chk-3/op/0-1-x.parquet", (3, 4)),
        ("p/chk-2/_metadata", (2,)),
    ]
    assert (report.safe, report.changed) == ([], False)
    assert "Checkpoints that need it: 3, 4." in report.damage_lines()[0]
    assert everything(world) == before


def test_what_is_free_of_damage_is_said(past):
    world = past(retained=3)
    world.storage.files["p/chk-4/op/0-1-x.parquet"] = b"r0?"
    report = world.coordinator.cleaning.plan()
    assert report.safe == [2, 3]
    assert report.damage_lines()[-1].startswith("No damage was found of checkpoints 2, 3. The tables are as they are.")


def test_metadata_that_is_not_what_was_committed_is_damage(past):
    world = past()
    path = metadata_path("p", 4)
    world.storage.files[path] = world.storage.files[path].replace(b'"periodic": false', b'"periodic": true')
    (damage,) = world.coordinator.cleaning.plan().damage
    assert (damage.path, damage.checkpoints) == (path, (4,))
    assert "differs from the committed one" in damage.problem


def test_files_that_another_process_expires_meanwhile_are_no_damage(past, monkeypatch):
    world = past(retained=2)
    verify = world.storage.verify

    def meanwhile(files, in_full):
        monkeypatch.undo()
        world.carried = 0
        world.take("r5")
        world.take("r6")
        verify(files, in_full)

    monkeypatch.setattr(world.storage, "verify", meanwhile)
    report = world.coordinator.cleaning.plan()
    assert (report.damage, world.ids()) == ((), ([5, 6], []))


def test_a_cleaning_with_another_storage_is_refused(past):
    world = past()
    world.storage.files.clear()
    with pytest.raises(PipelineIdentityError, match="not on the checkpoint storage"):
        world.coordinator.cleaning.clean()
