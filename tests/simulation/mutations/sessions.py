"""Planted mistakes about sessions: which rows make one, what stays of it in state, and when it leaves."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from mutations.planting import mutation
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.state import sessions
from tidegate.state.layout import StateLayout


@mutation("sessions that touch stay apart", (sessions, "_first_of_sessions"))
def _(original):
    return lambda key, begin, end: original(key, begin, end - 1)


@mutation("a session ends when the one before its last row does", (sessions, "_first_of_sessions"))
def _(original):
    def first_of_sessions(key, begin, end):
        first = np.ones(len(key), np.bool_)
        first[1:] = (key[1:] != key[:-1]) | (begin[1:] > end[:-1])
        first[2:] |= (key[2:] == key[:-2]) & (begin[2:] > end[:-2])
        return first

    return first_of_sessions


@mutation("a session that has become part of another one stays in state under its old bounds", (sessions, "_are_gone"))
def _(original):
    return lambda were, numbers, bounds: np.zeros_like(original(were, numbers, bounds))


@mutation("a session that begins earlier than it did stays in state under its old bounds, too", (sessions, "_are_gone"))
def _(original):
    def by_end_alone(were, numbers, bounds):
        ends = were.column("window_end").combine_chunks().cast("int64").to_numpy()
        return original(were, numbers, bounds) & (ends != bounds[1][numbers])

    return by_end_alone


@mutation("a session is placed by its bounds, too", (StateLayout, "hashed"))
def _(original):
    return property(lambda self: self.keys)


@mutation("a session that has ended is opened again by a row of its own", (sessions, "_sessions"))
def _(original):
    def with_all_open(table, stored, spec):
        at = table.schema.names.index(sessions.OPEN)
        return original(table.set_column(at, sessions.OPEN, pa.array([True] * table.num_rows)), stored, spec)

    return with_all_open


@mutation("a row is late by its own session alone, whatever that belongs to", (sessions, "_sessions"))
def _(original):
    def judged_first(table, stored, spec):
        found = original(table, stored, spec)
        is_open = np.append(np.array(table.column(sessions.OPEN)), np.ones(stored.num_rows, np.bool_))[found.order]
        starts = np.flatnonzero(np.diff(found.of, prepend=-1))
        return replace(found, open=np.logical_and.reduceat(is_open, starts)) if len(starts) else found

    return judged_first


@mutation("of open sessions that become one, only the first is looked for", (sessions, "_Sessions"))
def _(original):
    class FirstAlone(original):
        def members(self, stored):
            places, numbers = super().members(stored)
            first = np.diff(numbers, prepend=-1) > 0
            return (places[first], numbers[first]) if stored else (places, numbers)

    return FirstAlone


@mutation("sessions leave when a multiple of their gap passes, as windows do", (SessionWindow, "has_end_in"))
def _(original):
    def has_end_in(self, after, until):
        gap = self.gap_micros
        return original(self, after, until) and (after is None or after // gap != until // gap)

    return has_end_in
