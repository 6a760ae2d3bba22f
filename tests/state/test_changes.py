"""Changes between checkpoints that share a run of which they read different parts: after a rescale, one of two subtasks
has merged its runs.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_epochs import ROWS, numbers, texts
from state_operator import Operator
from state_readings import ROUTES, changes_of, check_script, files_of, read, routes

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def merged_in_part(parallelism: int) -> Any:
    """An epoch after which only the last of two subtasks merges its runs. Few keys, so that many are deleted."""
    place = st.just(0.0)
    return st.fixed_dictionaries(
        {
            "rows": st.lists(st.tuples(st.sampled_from("abcdefgh"), place, numbers, texts, st.booleans()), min_size=8),
            "parallelism": st.just(parallelism),
            "merge": st.just((0, 9)) if parallelism == 2 else st.none(),
            "merged_subtask": st.just(1),
            "lose_cache": st.just(False),
        }
    )


@pytest.mark.sampled
@SETTINGS
@given(first=merged_in_part(1), middle=st.lists(merged_in_part(2), min_size=1, max_size=3), last=merged_in_part(1))
def test_changes_are_those_of_a_dictionary_where_one_subtask_merged(first, middle, last, new_workshop) -> None:
    """The first and the last checkpoint share a run of which they read different parts."""
    check_script([first, *middle, last], Operator(new_workshop(), ROWS))


def test_deletions_of_a_run_that_one_of_two_subtasks_merged_are_changes(workshop) -> None:
    """After 1 → 2 → 1 both checkpoints begin with the same run, but the later one reads only a part of it."""
    operator = Operator(workshop, ROUTES)
    keys = [(str(number), "x") for number in range(40)]
    operator.upsert(routes(*((*key, 1, False) for key in keys)))
    before = operator.state()
    operator.upsert(routes(*((*key, None, True) for key in keys[:20])), parallelism=2)
    operator.merge((0, 2), only=1)
    operator.upsert(routes((*keys[-1], 2, False)), parallelism=2)
    operator.upsert(routes((*keys[-2], 3, False)), parallelism=1)
    shared = {run.path for runs in before.subtasks for run in runs} & {run.path for run in operator.state().runs}
    assert shared, "the run of the first checkpoint is still read by the last"
    changed = {keys[-1]: (2,), keys[-2]: (3,)}
    assert changes_of(read(files_of(operator, since=before))) == (changed, set(keys[:20]))
