"""Errors in a pipeline's expectations that show without data: their names, their arguments, the columns they name."""

from collections.abc import Mapping, Sequence

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.known_columns import meant
from tidegate.protocol.facts.names import Target
from tidegate.quality.suite_validation import ExpectationError, build


def wrong_expectations(graph: Graph, columns: Mapping[Target, Sequence[str] | None]) -> list[str]:
    """Return a sentence for each error. `columns` are the columns of each target; None where they are not known."""
    sentences: list[str] = []
    for target, suite in graph.suites.items():
        where = f"Suite {suite.name!r} of {target} in pipeline {graph.pipeline.name!r}"
        try:
            build(suite)
        except ExpectationError as error:
            sentences.append(f"{where}: {error}")
        known = columns.get(target)
        have = None if known is None else {name.lower() for name in known}
        for expectation in suite.expectations:
            for name in expectation.columns:
                if known is not None and have is not None and name.lower() not in have:
                    sentences.append(
                        f"{where}: {expectation.type} names a column {name!r}, but its rows have only "
                        f"{', '.join(known)}.{meant(name, known)}"
                    )
    return sentences
