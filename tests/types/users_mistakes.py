"""What a user gets wrong, a mistake a line, and what both type checkers report. Checked, and never run."""

import tidegate
from tidegate import CheckpointConfig, FileSource, ParquetSink, Piepline, Pipeline, count, suite, window  # reported
from tidegate.airflow import checkpoint_dag, chekpoint_dag  # reported
from tidegate.ports import Sink
from tidegate.savepoint import create, undo  # reported


class HalfASink:
    def writer(self) -> str:
        return "no writer"


pipeline = Pipeline("shop", paralelism=3)  # reported
CheckpointConfig(intervall="10 min")  # reported
CheckpointConfig(retained="three")  # reported
FileSource("landing", "xml", schema="a INT")  # reported
FileSource("landing")  # reported
rows = pipeline.source("rows", FileSource("landing", schema=12))  # reported
rows.sinc("rows", ParquetSink("rows"))  # reported
rows.sink("rows", ParquetSink("rows", mode="upsert"))  # reported
rows.sink("rows", HalfASink())  # reported
rows.sink("rows", tidegate.IcebergSink("db.rows", mode="upsert"))  # reported
tidegate.IcebergSource("db.rows", on_overwrite="ignore")  # reported
tidegate.IcebergSource("db.rows", "lake", "earliest", "fail", "a INT")  # reported
tidegate.PostgresSource("db.rows", on_change="skip")  # reported
tidegate.PostgresSource("db.rows", "shop", "xid", "id")  # reported
tidegate.KafkaSource("rows", schema="a INT", start="newest")  # reported
tidegate.KafkaSource("rows", schema="a INT", malformed="drop")  # reported
rows.key_by("a").aggregate("n", n="count")  # reported
tidegate.collect_list("a")  # reported
tidegate.approx_percentile("a", "0.5")  # reported
rows.key_by("a").aggregate("n", window("at"), n=count())  # reported
rows.transform(lambda frame: 3)  # reported
sink: Sink = FileSource("landing", schema="a INT")  # reported
checkpoint_dag(pipeline, sparkconf={})
checkpoint_dag("shop", pipelines=[])  # reported
tidegate.state.reed("shop", "rows")  # reported
tidegate.read("shop", checkpoint="newest")  # reported
create(12)  # reported
pipeline.check("check", sinks="rows", expects=suite("s"))  # reported
