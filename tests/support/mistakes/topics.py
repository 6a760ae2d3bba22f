"""Mistakes with topics that a pipeline writes: found when brokers are asked, which `tidegate check` or `run` does.

The brokers of the connection `kafka_default` have the topics in `TOPICS`, by name with their settings.
"""

from mistakes.delivered import GOOD, Delivered

TOPICS: dict[str, dict[str, str]] = {"orders": {}}

PIPELINES = """
from tidegate import *

def made(name, topic, **options):
    pipeline = Pipeline(name, parallelism=1)
    orders = pipeline.source("orders", FileSource(f"landing/{name}", schema="customer string, amount int"))
    orders.sink("orders", KafkaSink(topic, **options))
    return pipeline

missing = made("missing", "ordres")
keyed = made("keyed", "orders", key="custmer")
bytes_ = made("bytes_", "orders", format="bytes")
elsewhere = made("elsewhere", "orders", connection="events")
"""

MISTAKES = [
    Delivered("a topic that is not there", "tidegate check missing", {}),
    Delivered("a key that no row has", "tidegate check keyed", {}),
    Delivered("bytes of more than one column", "tidegate check bytes_", {}),
    Delivered("a connection that is not there", "tidegate run elsewhere", {"elsewhere/1.csv": GOOD}),
]
