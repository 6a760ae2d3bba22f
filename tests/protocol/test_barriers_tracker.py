"""protocol.md section 11.3, row by row, and against a slow, obviously right model."""

from cases import for_each
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.protocol.barriers.messages import (
    AbortSnapshot,
    Announcement,
    Barrier,
    BytesQueued,
    Cancel,
    EndAlignment,
    EndOfPartition,
    StartAlignment,
    TakeSnapshot,
    Timeout,
)
from tidegate.protocol.barriers.tracker import BarrierTracker
from tidegate.protocol.facts.reasons import FailureReason

CANCELLED = FailureReason.DECLINED_ON_CANCELLATION_BARRIER
ENDED = FailureReason.DECLINED_INPUT_END_OF_STREAM


def taken(checkpoint_id):
    return [EndAlignment(checkpoint_id), TakeSnapshot(checkpoint_id)]


# Each case: channels, the events in order, and the answer to each.
SECTION_11_3 = {
    "barrier, new id with one open channel: at once": (1, [
        (Barrier(1, 0), [StartAlignment(1), *taken(1)]),
        (Barrier(3, 0), [StartAlignment(3), *taken(3)]),
        (Barrier(3, 0), []),
    ]),
    "barrier, new id with one open channel of several: the queue is untouched": (3, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (EndOfPartition(1), []),
        (EndOfPartition(0), []),  # counts once: channel 0 had delivered its barrier
        (Barrier(2, 2), [StartAlignment(2), *taken(2)]),
        (Barrier(1, 2), taken(1)),
    ]),
    "barrier, no open channel: the subtask is asked directly, at once": (2, [
        (EndOfPartition(0), []),
        (EndOfPartition(1), []),
        (Barrier(1, 0), [StartAlignment(1), *taken(1)]),
        (Barrier(1, 1), []),
    ]),
    "barrier, known id: added, complete with the last": (3, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Barrier(1, 0), []),
        (Barrier(1, 1), []),
        (Barrier(1, 2), taken(1)),
    ]),
    "barrier, complete: all older are dropped without a word": (2, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Barrier(2, 0), [StartAlignment(2)]),
        (Barrier(2, 1), taken(2)),
        (Barrier(1, 1), []),
    ]),
    "barrier, an older id completes late if before a newer one": (2, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Barrier(2, 0), [StartAlignment(2)]),
        (Barrier(1, 1), taken(1)),
        (Barrier(2, 1), taken(2)),
    ]),
    "barrier, unknown and not higher than the highest seen: ignored": (2, [
        (Barrier(2, 0), [StartAlignment(2)]),
        (Barrier(1, 1), []),
        (Barrier(1, 0), []),
        (Barrier(2, 1), taken(2)),
        (Barrier(2, 0), []),
        (Barrier(2, 1), []),
    ]),
    "barrier, overflow: the oldest is dropped without a word": (2, [
        *((Barrier(id_, 0), [StartAlignment(id_)]) for id_ in range(1, 52)),
        (Barrier(1, 1), []),
        (Barrier(2, 1), taken(2)),
    ]),
    "barrier, as many as are tracked: none is dropped": (2, [
        *((Barrier(id_, 0), [StartAlignment(id_)]) for id_ in range(1, 51)),
        (Barrier(1, 1), taken(1)),
    ]),
    "cancel, new id with one open channel: aborted at once": (1, [
        (Cancel(1, 0), [AbortSnapshot(1, CANCELLED)]),
        (Cancel(1, 0), []),
        (Barrier(1, 0), []),
    ]),
    "cancel: every queued older id is aborted and removed": (2, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Barrier(2, 0), [StartAlignment(2)]),
        (Barrier(3, 0), [StartAlignment(3)]),
        (Cancel(3, 1), [AbortSnapshot(1, CANCELLED), AbortSnapshot(2, CANCELLED), AbortSnapshot(3, CANCELLED)]),
        (Barrier(1, 1), []),
        (Barrier(2, 1), []),
    ]),
    "cancel, an older id already aborted: not told again": (3, [
        (Cancel(1, 0), [AbortSnapshot(1, CANCELLED)]),
        (Cancel(2, 0), [AbortSnapshot(2, CANCELLED)]),
    ]),
    "cancel, queued: told once, counts the channel, removed when complete": (3, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Cancel(1, 1), [AbortSnapshot(1, CANCELLED)]),
        (Cancel(1, 1), []),
        (Cancel(1, 2), []),
        (Barrier(2, 0), [StartAlignment(2)]),
        (Cancel(2, 0), [AbortSnapshot(2, CANCELLED)]),  # 1 is gone: nobody speaks of it
    ]),
    "cancel, unknown and newer: its barriers are swallowed": (3, [
        (Cancel(1, 0), [AbortSnapshot(1, CANCELLED)]),
        (Barrier(1, 1), []),
        (Barrier(1, 2), []),
        (Barrier(2, 2), [StartAlignment(2)]),
    ]),
    "cancel, unknown and older: ignored": (2, [
        (Barrier(2, 0), [StartAlignment(2)]),
        (Cancel(1, 1), []),
        (Barrier(2, 1), taken(2)),
    ]),
    "end of partition: added newest first, the first complete one takes the older with it": (2, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Barrier(2, 0), [StartAlignment(2)]),
        (EndOfPartition(1), taken(2)),
        (Barrier(1, 1), []),
    ]),
    "end of partition: an incomplete newer one keeps waiting": (3, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Barrier(1, 1), []),
        (Barrier(2, 0), [StartAlignment(2)]),
        (EndOfPartition(2), taken(1)),
        (Barrier(2, 1), taken(2)),
    ]),
    "end of partition completes an aborted id: nothing is told": (2, [
        (Cancel(1, 0), [AbortSnapshot(1, CANCELLED)]),
        (EndOfPartition(1), []),
    ]),
    "end of partition: counts once, and is not waited for afterwards": (3, [
        (EndOfPartition(0), []),
        (EndOfPartition(0), []),
        (Barrier(1, 1), [StartAlignment(1)]),
        (Barrier(1, 2), taken(1)),
    ]),
    "announcements, timers and queued bytes mean nothing": (2, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Announcement(Barrier(1, 1)), []),
        (Timeout(1), []),
        (BytesQueued(10**12), []),
    ]),
}  # fmt: skip

SECTION_11_3_FINISHED_OFF = {
    "end of partition, feature off: every queued id is aborted": (2, [
        (Barrier(1, 0), [StartAlignment(1)]),
        (Barrier(2, 0), [StartAlignment(2)]),
        (EndOfPartition(0), [AbortSnapshot(1, ENDED), AbortSnapshot(2, ENDED)]),
        (Barrier(2, 1), []),
        (Barrier(3, 1), [StartAlignment(3), *taken(3)]),
    ]),
    "end of partition, feature off: what was cancelled is not told again": (3, [
        (Cancel(1, 0), [AbortSnapshot(1, CANCELLED)]),
        (EndOfPartition(0), []),
    ]),
}  # fmt: skip


@for_each(("channels", "story"), SECTION_11_3.values(), ids=SECTION_11_3)
def test_section_11_3(channels, story):
    tracker = BarrierTracker(channels)
    assert [(event, tracker.step(event)) for event, _ in story] == story


@for_each(("channels", "story"), SECTION_11_3_FINISHED_OFF.values(), ids=SECTION_11_3_FINISHED_OFF)
def test_section_11_3_without_checkpoints_after_tasks_finish(channels, story):
    tracker = BarrierTracker(channels, checkpoints_after_tasks_finish=False)
    assert [(event, tracker.step(event)) for event, _ in story] == story


def test_a_cancelled_id_is_forgotten_once_every_channel_has_been_heard_from():
    tracker = BarrierTracker(3)
    for event in (Cancel(1, 0), Barrier(1, 1), Cancel(1, 2)):
        tracker.step(event)
    assert not tracker._queue


class Model:
    """Never forgets a checkpoint: each has the channels it waits for and one of `open`, `aborted` (told, still waiting
    for the rest) and `gone`. No queue and no counter."""

    def __init__(self, channels, finished):
        self.opened, self.finished = set(range(channels)), finished
        self.missing, self.fate = {}, {}

    def told(self, event):
        match event:
            case Barrier(checkpoint_id=i, channel=c):
                at_once = self._is_new(i) and len(self.opened) == 1
                if self._is_new(i):
                    self._add(i, "gone" if at_once else "open")
                return [("take", i)] if at_once else self._hear(i, c)
            case Cancel(checkpoint_id=i, channel=c):
                new = self._is_new(i)
                if new and len(self.opened) == 1:
                    self._add(i, "gone")
                    return [("abort", i)]
                aborted = [("abort", old) for old in self._waiting() if old < i and self.fate[old] == "open"]
                for old in self._waiting():
                    if old < i:
                        self.fate[old] = "gone"
                if new:
                    self._add(i, "open")
                if i in self._waiting():
                    aborted += [("abort", i)] if self.fate[i] == "open" else []
                    self.fate[i] = "aborted"
                    self._hear(i, c)
                return aborted
            case EndOfPartition(channel=c):
                self.opened.discard(c)
                if not self.finished:
                    aborted = [("abort", i) for i in self._waiting() if self.fate[i] == "open"]
                    self.fate = dict.fromkeys(self.fate, "gone")
                    return aborted
                for i in reversed(self._waiting()):
                    before = self.fate[i]
                    told = self._hear(i, c)
                    if self.fate[i] != before:
                        return told
                return []

    def _is_new(self, i):
        return i > max(self.fate, default=-1)

    def _waiting(self):
        return sorted(i for i, fate in self.fate.items() if fate != "gone")

    def _add(self, i, fate):
        self.missing[i], self.fate[i] = set(self.opened), fate

    def _hear(self, i, c):
        if i not in self._waiting():
            return []
        self.missing[i].discard(c)
        if self.missing[i]:
            return []
        told = [("take", i)] if self.fate[i] == "open" else []
        self.fate |= {old: "gone" for old in self._waiting() if old <= i}
        return told


@st.composite
def streams(draw):
    """Events as channels can really bring them: a channel says nothing after its end. Fewer ids than are tracked."""
    channels = draw(st.integers(1, 4))
    closed, events = set(), []
    for _ in range(draw(st.integers(0, 30))):
        channel = draw(st.sampled_from([c for c in range(channels) if c not in closed] or [None]))
        if channel is None:
            break
        kind = draw(st.sampled_from("bbbbbbce"))
        if kind == "e":
            closed.add(channel)
            events.append(EndOfPartition(channel))
        else:
            events.append((Barrier if kind == "b" else Cancel)(draw(st.integers(0, 6)), channel))
    return channels, events


@settings(deadline=None)
@given(streams(), st.booleans())
def test_snapshots_and_aborts_are_those_of_the_model_and_nothing_is_ever_blocked(stream, finished):
    channels, events = stream
    tracker, model = BarrierTracker(channels, finished), Model(channels, finished)
    started = set()
    for event in events:
        told = []
        for action in tracker.step(event):
            match action:
                case StartAlignment(checkpoint_id):
                    assert checkpoint_id not in started
                    started.add(checkpoint_id)
                case EndAlignment(checkpoint_id):
                    assert checkpoint_id in started
                case TakeSnapshot(checkpoint_id):
                    told.append(("take", checkpoint_id))
                case AbortSnapshot(checkpoint_id, _):
                    told.append(("abort", checkpoint_id))
                case _:
                    raise AssertionError(action)
        assert told == model.told(event)
