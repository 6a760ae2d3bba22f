"""What is wrong with a pipeline's expectations, without data: their names, their arguments, the columns they name."""

from collections.abc import Mapping, Sequence

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.known_columns import meant
from tidegate.protocol.facts.names import Target
from tidegate.quality.judgement import ExpectationError, build


def wrong_expectations(graph: Graph, columns: Mapping[Target, Sequence[str] | None]) -> list[str]:
    """A sentence for each. `columns` are those that each target has; None where they are not known."""
    found: list[str] = []
    for target, suite in graph.suites.items():
        where = f"Suite {suite.name!r} of {target} in pipeline {graph.pipeline.name!r}"
        try:
            build(suite)
        except ExpectationError as error:
            found.append(f"{where}: {error}")
        known = columns.get(target)
        have = None if known is None else {name.lower() for name in known}
        for expectation in suite.expectations:
            for name in expectation.columns:
                if known is not None and have is not None and name.lower() not in have:
                    found.append(
                        f"{where}: {expectation.type} names a column {name!r}, and what it judges has only "
                        f"{', '.join(known)}.{meant(name, known)}"
                    )
    return found
