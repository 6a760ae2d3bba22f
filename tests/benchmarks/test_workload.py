"""The sizes that are compared, and that a wrong total is noticed."""

from pathlib import Path

import numpy as np
from cases import for_each


@for_each(
    ("keys", "events"),
    [(100_000, [10_000]), (1_000_000, [10_000, 100_000]), (10_000_000, [10_000, 100_000, 1_000_000])],
)
def test_epochs_are_of_ten_thousand_events_and_of_what_follows_the_keys(keys: int, events: list[int]) -> None:
    from workload import Workload

    workload = Workload(keys, 2, 10)
    assert workload.series() == events
    epochs = [epoch for epoch in workload.epochs() if epoch.phase == "epochs"]
    counted = {each: sum(not epoch.warm_up for epoch in epochs if epoch.events == each) for each in events}
    assert counted == {each: 5 if each == 1_000_000 else 10 for each in events}


def test_what_engines_write_is_held_against_the_events() -> None:
    from workload import Workload, differences

    workload = Workload(10_000, 1, 2)
    expected = workload.totals()
    assert expected["events"].sum() == sum(epoch.events for epoch in workload.epochs())
    shuffled = np.random.default_rng(1).permutation(workload.keys)
    found = {name: values[shuffled] for name, values in expected.items()}
    assert differences(expected, found) == []
    wrong = {**found, "total": found["total"] + (np.arange(workload.keys) < 3)}
    assert differences(expected, wrong) == ["total is wrong for 3 keys"]
    lost = {name: values[1:] for name, values in found.items()}
    assert differences(expected, lost) == ["9,999 keys instead of 10,000"]


def test_both_forms_of_a_file_have_the_same_events(tmp_path: Path) -> None:
    import pyarrow.parquet as pq
    from flink_engine import write_flat
    from workload import Workload

    workload = Workload(10_000, 1, 2)
    workload.write(tmp_path / "parquet")
    write_flat(workload, tmp_path / "flat")
    for epoch in workload.epochs():
        table = pq.read_table(tmp_path / "parquet" / epoch.file)
        flat = np.fromfile(tmp_path / "flat" / f"{epoch.number:03}", "<i8").reshape(-1, 2)
        assert np.array_equal(flat.T, [table["key"].to_numpy(), table["value"].to_numpy()])
