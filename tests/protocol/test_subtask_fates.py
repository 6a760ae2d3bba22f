"""What holds of a subtask whatever happens, and in whatever order: each checkpoint has one fate."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.protocol.barriers.messages import ALIGNED, UNALIGNED
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.subtask.messages import (
    AbortCapture,
    Acknowledge,
    AlignmentAborted,
    Begin,
    BroadcastBarrier,
    BroadcastCancel,
    CaptureEnded,
    DiscardSnapshot,
    ForwardAborted,
    ForwardComplete,
    ForwardSubsumed,
    NotifyAborted,
    NotifyComplete,
    Prepare,
    SnapshotOperators,
    StepDone,
    WriteEnded,
    WriteFailed,
)
from tidegate.protocol.subtask.steps import SubtaskSteps

SUBSUMED = FailureReason.DECLINED_SUBSUMED

EVENTS = st.one_of(
    st.builds(Begin, st.integers(1, 6), st.sampled_from([ALIGNED, UNALIGNED])),
    st.builds(CaptureEnded, st.integers(1, 6)),
    st.builds(WriteEnded, st.integers(1, 6)),
    st.builds(WriteFailed, st.integers(1, 6)),
    st.builds(AlignmentAborted, st.integers(1, 6), st.just(SUBSUMED)),
    st.builds(NotifyComplete, st.integers(1, 6), st.integers(-1, 6)),
    st.builds(NotifyAborted, st.integers(1, 6), st.integers(-1, 6)),
    st.just("step"),
    st.just("step"),
)


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_whatever_happens_each_checkpoint_has_one_fate_and_downstream_never_waits_for_nothing(events):
    """The model is the list of all effects so far: what may follow in it, and what may not."""
    steps = SubtaskSteps(max_concurrent_checkpoints=3)
    effects, synchronous, wrote = [], None, set()
    for event in events:
        if event == "step":
            if synchronous is None:
                continue
            event = StepDone(synchronous)
        elif isinstance(event, Begin) and synchronous is not None:
            continue  # the subtask's own thread is busy
        elif isinstance(event, WriteEnded | WriteFailed) and (
            SnapshotOperators(event.checkpoint_id) not in effects or event.checkpoint_id == synchronous
        ):
            continue  # nothing was handed over to be written
        answer = steps.step(event)
        for effect in answer:
            before = [other for other in effects if other.checkpoint_id == effect.checkpoint_id]
            match effect:
                case Prepare(id_):
                    assert not before or all(
                        isinstance(other, ForwardAborted | ForwardComplete | ForwardSubsumed) for other in before
                    )
                    assert all(other.checkpoint_id < id_ for other in effects if isinstance(other, Prepare))
                case BroadcastBarrier():
                    assert Prepare(effect.checkpoint_id) in before
                    assert BroadcastCancel(effect.checkpoint_id) not in before
                case SnapshotOperators():
                    assert any(isinstance(other, BroadcastBarrier) for other in before)
                case Acknowledge(id_):
                    assert SnapshotOperators(id_) in before
                    assert WriteEnded(id_) in wrote | {event}
                    assert not {DiscardSnapshot(id_), AbortCapture(id_), Acknowledge(id_)} & set(before)
                case DiscardSnapshot(id_):
                    assert SnapshotOperators(id_) in before
                    assert not {DiscardSnapshot(id_), Acknowledge(id_)} & set(before)
                case ForwardComplete(id_):
                    assert all(other.checkpoint_id < id_ for other in effects if isinstance(other, ForwardComplete))
            effects.append(effect)
        if isinstance(event, WriteEnded):
            wrote.add(event)
        match answer:
            case [Prepare(id_)]:
                synchronous = id_
            case [BroadcastBarrier() | SnapshotOperators()]:
                pass
            case _ if isinstance(event, StepDone):
                synchronous = None
            case _ if isinstance(event, NotifyAborted | AlignmentAborted) and event.checkpoint_id == synchronous:
                synchronous = None
        if isinstance(event, Begin) and answer and answer != [Prepare(event.checkpoint_id)]:
            assert BroadcastCancel(event.checkpoint_id) in answer
    for id_ in {effect.checkpoint_id for effect in effects if isinstance(effect, Prepare)} - {synchronous}:
        sent = [e for e in effects if e.checkpoint_id == id_ and isinstance(e, BroadcastBarrier | BroadcastCancel)]
        assert sent  # downstream learns that there is a barrier, or that there will be none
