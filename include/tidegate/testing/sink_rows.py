"""Tests of the rows that a sink can hold: null, every type, many."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.ports import TypedSink
from tidegate.testing.every_type import EVERY_TYPE
from tidegate.testing.sink_trials import S, SinkTrials


class RowTests(SinkTrials[S]):
    def test_null_is_a_value_and_a_key(self, tmp_path: Path) -> None:
        if not self.nulls:
            pytest.skip("the suite says that the sink takes no nulls")
        for field in self.schema:
            trial = self.trial(tmp_path)
            row = {**self.row(1), field.name: None}
            staged = trial.stage(1, [row, self.row(2)])
            trial.commit(1, staged)
            trial.check(f"After a row with null in {field.name!r} was committed")
            trial.commit(1, staged)
            trial.check(f"After the commit of a row with null in {field.name!r} was repeated")

    def test_every_type_is_kept_or_refused_beforehand(self, tmp_path: Path) -> None:
        if not self.other_columns:
            pytest.skip("the suite says that the sink has columns of its own")
        wrong = [problem for name in EVERY_TYPE if (problem := self._kept(tmp_path, name)) is not None]
        assert not wrong, "\n".join(wrong)

    def _kept(self, tmp_path: Path, name: str) -> str | None:
        kind, values = EVERY_TYPE[name]
        schema = pa.schema({"k": pa.int64(), "v": kind})
        trial = self.trial(tmp_path, schema)
        refused: list[str] = trial.sink.unstorable(schema) if isinstance(trial.sink, TypedSink) else []
        if refused:
            return None if any("'v'" in phrase for phrase in refused) else f"{name}: 'v' is not in {refused}"
        rows: list[dict[str, Any]] = [{"k": number, "v": value} for number, value in enumerate([*values, None])]
        try:
            trial.take(1, rows)
            trial.check(f"{name}: after a commit")
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"
        return None

    def test_many_rows_are_committed_whole(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        most = self.many - self.many // 4
        staged = [
            *trial.stage(1, trial.some_rows(*range(most))),
            *trial.stage(1, trial.some_rows(*range(most, self.many)), subtask=1),
        ]
        trial.commit(1, staged)
        trial.commit(1, staged)
        trial.check(f"After {self.many} rows were committed, twice")
