"""The simulator notices every mistake planted in the rules: a proof of the proof."""

import pytest
from mutations import MUTATIONS, planted
from mutations.noticed import seed_that_notices


@pytest.mark.parametrize("sentence", MUTATIONS)
def test_a_planted_mistake_is_noticed(sentence):
    with planted(MUTATIONS[sentence]):
        assert seed_that_notices(sentence) is not None, f"nobody noticed that {sentence}"
