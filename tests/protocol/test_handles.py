"""A state handle as JSON: to the byte as it is on people's storage, and read back as it was."""

import json

from cases import for_each

from tidegate.protocol.facts.handles import handle_for_readers, handle_from_json, handle_to_json
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.records import HandleKind, StateHandle

RUN = StateHandle("p/chk-1/op/0-1-a", HandleKind.RUN, 3, 40, "ab", 1, KeyGroupRange(0, 63), {"rows": [1, None]})
EXCHANGE = StateHandle("p/chk-1/op/0-1-e", HandleKind.EXCHANGE, 0, 1, "cd", 1)


@for_each("handle", [RUN, EXCHANGE])
def test_what_was_written_down_is_read_back(handle: StateHandle) -> None:
    assert handle_from_json(json.loads(json.dumps(handle_to_json(handle)))) == handle


def test_what_positions_have_is_as_it_was_written_before() -> None:
    assert json.dumps(handle_to_json(RUN)) == (
        '{"path": "p/chk-1/op/0-1-a", "kind": "RUN", "rows": 3, "bytes": 40, "checksum": "ab", "created_by": 1, '
        '"key_groups": {"first": 0, "last": 63}, "details": {"rows": [1, null]}}'
    )
    assert json.dumps(handle_to_json(EXCHANGE)).endswith('"key_groups": null, "details": {}}')


def test_what_metadata_has_is_as_it_was_written_before() -> None:
    assert json.dumps(handle_for_readers(RUN)) == (
        '{"path": "p/chk-1/op/0-1-a", "kind": "RUN", "rows": 3, "bytes": 40, "sha256": "ab", "created_by": 1, '
        '"key_groups": [0, 63], "details": {"rows": [1, null]}}'
    )
    assert json.dumps(handle_for_readers(EXCHANGE)).endswith('"key_groups": null, "details": {}}')
