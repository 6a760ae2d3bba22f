"""How long rows live is checked where it is written."""

import re
from datetime import timedelta
from typing import Any

import pytest
from cases import for_each
from worlds import SplitSource

from tidegate import Pipeline, count, max_
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.expiry import TimeToLive

WRONG: dict[str, tuple[Any, Any, str]] = {
    "no duration": ("30 moons", None, "The ttl of operator 'n' cannot be read: '30 moons' is not a duration. Write a"),
    "a number": (30, None, "The ttl of operator 'n' cannot be read: '30' is not a duration"),
    "nothing": ("0 s", None, "The ttl of operator 'n' is '0 s'. Rows of state live for a millisecond at least"),
    "too long": ("80000 d", None, "The ttl of operator 'n' is '80000 d'. Rows of state live"),
    "below nothing": (timedelta(days=-1), None, "Rows of state live for a millisecond at least"),
    "a column alone": (None, "last", "The operator 'n' has ttl_by='last' and no ttl. Say how long its rows live"),
    "no name": ("1 d", 5, "The ttl_by of operator 'n' is 5. It is the name of a column of its state"),
    "no time": ("1 d", "n", "operator 'n' of pipeline 'shop' are to expire by 'n', which is count(…) and no time"),
    "an aggregate": (count(), None, "The operator 'n' declares an aggregate called ttl, which is the name of the"),
}


class Orders(SplitSource):
    schema = "customer string, at timestamp"


def totals(**ttl: Any) -> Pipeline:
    pipeline = Pipeline("shop")
    source = pipeline.source("orders", Orders())
    source.key_by("customer").aggregate("n", n=count(), last=max_("at"), **ttl)
    return pipeline


@for_each(("ttl", "by", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_time_to_live_is_refused_with_its_operator(ttl: Any, by: Any, message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=re.escape(message)):
        compile_graph(totals(ttl=ttl, ttl_by=by))


def test_by_the_last_change_or_by_a_column() -> None:
    (by_change,) = compile_graph(totals(ttl="1 h 30 min")).keyed
    assert by_change.ttl == TimeToLive("_updated", 5_400_000_000, True)
    assert str(by_change.ttl) == "1 h 30 min after their last change"
    (by_column,) = compile_graph(totals(ttl=timedelta(days=1), ttl_by="last")).keyed
    assert str(by_column.ttl) == "1 d after their 'last'"
    (for_ever,) = compile_graph(totals()).keyed
    assert for_ever.ttl is None
