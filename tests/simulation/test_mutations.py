"""The simulator notices every mistake planted in the rules: a proof of the proof."""

import json

import pytest
from mutations import MUTATIONS, planted
from mutations.noticed import LIST, TRIED, seed_of, seed_that_notices
from sizes import later

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


def test_each_mistake_is_planted_in_something_that_is_there():
    """Otherwise it was moved or renamed, and two of three runs do not plant it."""
    places = [(sentence, each) for sentence, replacements in MUTATIONS.items() for each in replacements]
    assert [sentence for sentence, each in places if not hasattr(each.owner, each.name)] == []
