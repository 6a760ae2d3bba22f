"""Shared by the source and the sink of a topic: the check that its brokers answer, and its name in data catalogues."""

from tidegate.kafka.connections import brokers_of
from tidegate.kafka.refusals import Topic
from tidegate.protocol.facts.errors import ConfigurationError, PipelineDefinitionError

#: Seconds that a check waits for a broker's answer.
_PATIENCE = 5.0
_PORT = 9092


class OnTopic:
    """Implements `ports.RemoteEndpoint`."""

    topic: str
    connection: str

    def reached(self) -> str:
        """See `ports.RemoteEndpoint`. Raise `NotInstalledError` without confluent-kafka."""
        from tidegate.kafka.clients import require_client

        require_client()
        from tidegate.kafka.topic_queries import TopicQueries

        brokers = brokers_of(self.connection)
        queries = TopicQueries(brokers, Topic(self.topic, self.connection), was_read=False, time_limit=_PATIENCE)
        try:
            _, partitions = queries.partitions()
        except PipelineDefinitionError as error:
            raise ConfigurationError(
                f"There is no topic {self.topic!r} at {brokers.servers}, the brokers of connection "
                f"{self.connection!r}, or its user may not see it. Nothing was changed. Make the topic, or grant the "
                "user to describe it."
            ) from error
        many = "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"
        return f"topic {self.topic!r} with {many} at {brokers.servers} (connection {self.connection!r})"

    def dataset(self) -> tuple[str, str]:
        """See `ports.RemoteEndpoint`: the first of the brokers' addresses, and the topic."""
        first = brokers_of(self.connection).servers.split(",")[0].strip().rpartition("://")[2]
        has_port = ":" in first.rpartition("]")[2]  # an address of IPv6 has colons of its own, in brackets
        return f"kafka://{first if has_port else f'{first}:{_PORT}'}", self.topic
