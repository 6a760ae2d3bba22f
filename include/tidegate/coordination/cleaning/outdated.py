"""Remove files that are kept in the places of a pipeline's sinks for a limited time, when no commit removes them."""

from collections.abc import Iterator

from tidegate.coordination.context import PipelineContext
from tidegate.coordination.steps.commit_attempts import Committer, SinkWork, in_turn
from tidegate.coordination.steps.ownership import Ownership
from tidegate.ports import LingeringSink
from tidegate.protocol.facts.records import Deletion


class OutdatedFiles:
    """The outdated files of `ports.LingeringSink`s, in places that are the pipeline's own."""

    def __init__(self, context: PipelineContext, ownership: Ownership) -> None:
        self._context = context
        self._ownership = ownership

    def find(self) -> list[Deletion]:
        """Return the outdated files. Changes nothing."""
        now = self._context.clock.now()
        return [Deletion(owner, path) for owner, sink in self._sinks() for path in sink.outdated(now)]

    def remove(self) -> None:
        """Remove the outdated files, as the newest attempt at changing the sinks. Raises the errors of sinks."""
        if not self.find():
            return

        def remove(committer: Committer) -> None:
            for _, sink in self._sinks():
                committer.keep()
                sink.remove_outdated(committer)
            committer.release()

        in_turn(self._context, SinkWork("removing outdated files", lambda _: False), remove)

    def _sinks(self) -> Iterator[tuple[str, LingeringSink]]:
        for owner, sink in self._ownership.own_sinks().items():
            if isinstance(sink, LingeringSink):
                yield owner, sink
