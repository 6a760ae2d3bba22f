"""The simulator notices every mistake planted in the rules: a proof of the proof."""

import json

import pytest
from mutations import MUTATIONS, planted
from mutations.noticed import LIST, TRIED, notices, seed_of, seed_that_notices
from mutations.planting import MisfitError, Replacement, misfit
from sizes import later

from tidegate.coordination.steps.finalize import CommitPoint

#: Every run looks at one in three of those that a seed is known to notice, `make test-long` and `make noticed` at all.
ONE_IN = 3


@pytest.mark.parametrize(
    "sentence",
    [later(each) if number % ONE_IN or seed_of(each) is None else each for number, each in enumerate(MUTATIONS)],
)
def test_a_planted_mistake_is_noticed(sentence):
    with planted(MUTATIONS[sentence]):
        noticed = seed_that_notices(sentence)
    assert noticed is not None, (
        f"nobody noticed that {sentence}: neither seed {seed_of(sentence)}, which did before, nor the first {TRIED}. "
        "`make noticed` looks through 5,000: if none of them does, the simulator does not see this mistake."
    )


def test_the_list_of_seeds_knows_each_mistake_and_no_other():
    """Otherwise a test tries many seeds, every time."""
    assert json.loads(LIST.read_text()).keys() == MUTATIONS.keys()


def test_each_mistake_takes_the_place_of_something_that_is_there():
    """Otherwise that was moved or renamed, or is called in another way, and two of three runs do not plant it."""
    places = [(sentence, each) for sentence, replacements in MUTATIONS.items() for each in replacements]
    misfits = [(sentence, each.name, why) for sentence, each in places if (why := misfit(each))]
    assert misfits == []


def test_a_mistake_that_does_not_fit_the_code_any_more_is_not_noticed():
    """The code calls it in another way, or it calls what is not there: that the run fails proves nothing."""

    def forgets_a_parameter(self, checkpoint_id):
        return None

    def asks_for_what_is_not_there(self, *rest):
        return self.nothing

    for made in (forgets_a_parameter, asks_for_what_is_not_there):
        replacement = Replacement(CommitPoint, "reach", lambda original, made=made: made)
        assert (made is forgets_a_parameter) == bool(misfit(replacement))
        with planted((replacement,)), pytest.raises(MisfitError, match="does not fit the code any more"):
            notices(3)
