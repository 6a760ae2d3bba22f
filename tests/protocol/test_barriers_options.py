"""Which handler a pipeline gets and what its barriers say: the table "Options sent" of protocol.md section 4."""

import pytest
from cases import for_each

from tidegate.protocol.barriers.aligned import AlignedBarrierHandler
from tidegate.protocol.barriers.messages import (
    ALIGNED,
    UNALIGNED,
    AbortSnapshot,
    AlignmentType,
    Barrier,
    BarrierOptions,
    BytesQueued,
    EndOfPartition,
)
from tidegate.protocol.barriers.options import GateOptions, choose_barrier_options, make_handler
from tidegate.protocol.barriers.tracker import BarrierTracker
from tidegate.protocol.barriers.unaligned import UnalignedBarrierHandler
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.reasons import FailureReason

NO_ALIGNMENT = BarrierOptions(AlignmentType.NONE)
AT_LEAST_ONCE = GateOptions(exactly_once=False)
SAVEPOINT, CHECKPOINT = True, False

SECTION_4_OPTIONS_SENT = [
    (AT_LEAST_ONCE, CHECKPOINT, NO_ALIGNMENT),
    (AT_LEAST_ONCE, SAVEPOINT, NO_ALIGNMENT),
    (GateOptions(), SAVEPOINT, ALIGNED),
    (GateOptions(unaligned=True), SAVEPOINT, ALIGNED),
    (GateOptions(unaligned=True, aligned_timeout=30), SAVEPOINT, ALIGNED),
    (GateOptions(), CHECKPOINT, ALIGNED),
    (GateOptions(aligned_timeout=30), CHECKPOINT, ALIGNED),
    (GateOptions(unaligned=True, aligned_timeout=0), CHECKPOINT, UNALIGNED),
    (GateOptions(unaligned=True, aligned_timeout=None), CHECKPOINT, UNALIGNED),
    (GateOptions(unaligned=True, aligned_timeout=30), CHECKPOINT, BarrierOptions(AlignmentType.ALIGNED, 30)),
]


@for_each(("options", "savepoint", "sent"), SECTION_4_OPTIONS_SENT)
def test_options_sent(options, savepoint, sent):
    assert choose_barrier_options(options, savepoint) == sent


@for_each(
    ("options", "handler"),
    [
        (GateOptions(), AlignedBarrierHandler),
        (GateOptions(aligned_timeout=30), AlignedBarrierHandler),
        (GateOptions(unaligned=True), UnalignedBarrierHandler),
        (GateOptions(unaligned=True, aligned_timeout=30), UnalignedBarrierHandler),
        (AT_LEAST_ONCE, BarrierTracker),
    ],
)
def test_the_handler_follows_from_the_options(options, handler):
    assert type(make_handler(options, 2)) is handler


@for_each("options", [{}, {"unaligned": True}, {"exactly_once": False}])
def test_every_handler_knows_whether_finished_inputs_are_allowed(options):
    for finished in (True, False):
        handler = make_handler(GateOptions(**options, checkpoints_after_tasks_finish=finished), 3)
        handler.step(Barrier(1, 0))
        aborts = [action for action in handler.step(EndOfPartition(1)) if isinstance(action, AbortSnapshot)]
        assert aborts == ([] if finished else [AbortSnapshot(1, FailureReason.DECLINED_INPUT_END_OF_STREAM)])


def test_the_alignment_limit_reaches_the_handler():
    handler = make_handler(GateOptions(alignment_limit=10), 2)
    handler.step(Barrier(1, 0))
    assert AbortSnapshot(1, FailureReason.ALIGNMENT_LIMIT_EXCEEDED) in handler.step(BytesQueued(11))


@for_each(
    "options",
    [
        {"exactly_once": False, "unaligned": True},
        {"aligned_timeout": -1},
        {"alignment_limit": 0},
        {"alignment_limit": -1},
        {"alignment_limit": 10, "unaligned": True},
        {"alignment_limit": 10, "exactly_once": False},
    ],
)
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises(PipelineDefinitionError):
        GateOptions(**options)


TIMED = BarrierOptions(AlignmentType.ALIGNED, 30)
SWITCHED = BarrierOptions(AlignmentType.UNALIGNED, 30)


@for_each(
    ("options", "unsupported", "downstream"),
    [
        (ALIGNED, ALIGNED, ALIGNED),
        (NO_ALIGNMENT, NO_ALIGNMENT, NO_ALIGNMENT),
        (UNALIGNED, BarrierOptions(AlignmentType.FORCED_ALIGNED), UNALIGNED),
        (TIMED, BarrierOptions(AlignmentType.FORCED_ALIGNED, 30), TIMED),
        (SWITCHED, BarrierOptions(AlignmentType.FORCED_ALIGNED, 30), TIMED),
    ],
)
def test_section_11_5_a_forced_alignment_is_undone_before_the_barrier_goes_on(options, unsupported, downstream):
    assert options.forced_aligned() == unsupported
    assert unsupported.unaligned_capable() == downstream
    assert unsupported.times_out_after is None
    assert not unsupported.unaligned
