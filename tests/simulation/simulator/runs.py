"""Keyed state as files: which key group a key is in, and what a run holds in the key groups it is to be read in."""

import json
from functools import cache
from hashlib import sha256

from simulator.sessions import SMALLEST, placed_by
from tidegate.protocol.facts.keygroups import key_group_of
from tidegate.protocol.facts.records import StateHandle


@cache
def hash_of(key: int) -> int:
    return int.from_bytes(sha256(str(key).encode()).digest()[:8], "big")


def group_of(key: int, max_parallelism: int) -> int:
    """A session is placed by a part of its number."""
    return key_group_of(hash_of(placed_by(key) if key >= SMALLEST else key), max_parallelism)


def values_of(run: StateHandle, content: bytes, max_parallelism: int) -> dict[int, int]:
    """After a rescale several subtasks share a file, each reads its own part of it."""
    groups = run.key_groups
    assert groups is not None
    values = dict(json.loads(content))
    return {key: values[key] for key in values if groups.first <= group_of(key, max_parallelism) <= groups.last}
