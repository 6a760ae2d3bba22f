"""What the values of a topic are, as a definition says it: JSON, Avro or bytes.

Checks what is declared, and performs no I/O. `values/` decodes and encodes, in Spark's tasks.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.kafka.values.decoded import Decoder, Encoder

FORMATS = ("json", "avro", "bytes")
#: The column of bytes where no schema names it.
BYTES = "value BINARY"
#: What becomes of records without a value: they are malformed, left out, or rows of nulls.
Tombstones = Literal["malformed", "skip", "null"]


@dataclass(frozen=True)
class Format:
    """The format of a topic's values. `tombstones` counts for reading, and not for bytes, where they are null."""

    name: Literal["json", "avro", "bytes"] = "json"
    tombstones: Tombstones = "malformed"

    def columns(self) -> str | None:
        """The columns of the value as Spark DDL, where the format itself has them."""
        return BYTES if self.name == "bytes" else None

    def decoder(self, columns: "pa.Schema") -> "Decoder":
        """What decodes values into the columns of the value, which are all of them: a record is judged as a whole."""
        if self.name == "bytes":
            from tidegate.kafka.values.byte_values import Bytes

            return Bytes(columns.names[0])
        from tidegate.kafka.values.json_blocks import JsonDecoder

        return JsonDecoder(columns, self.tombstones)

    def encoder(self, columns: "pa.Schema") -> "Encoder":
        """What encodes rows of these columns."""
        if self.name == "bytes":
            from tidegate.kafka.values.byte_values import Bytes

            return Bytes(columns.names[0])
        from tidegate.kafka.values.json_writing import JsonEncoder

        return JsonEncoder(columns)
