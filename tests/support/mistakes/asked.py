"""Mistakes in commands. `HERE` is a project with the pipeline `shop`, whose database is empty."""

from typing import NamedTuple

HERE = {
    "pyproject.toml": """
[tool.tidegate.pipelines]
shop = "storefront:shop"
lost = "not_there:shop"
number = "storefront:number"
taken = "storefront:taken"
renamed = "storefront:renamed"
""",
    "storefront.py": """
from tidegate import *

shop = Pipeline("shop")
orders = shop.source("orders", FileSource("landing", schema="customer string, amount int"))
orders.sink("t", ParquetSink("tables/t"))
number = 7
taken = Pipeline("taken")
taken.source("orders", FileSource("landing", schema="amount int")).sink("t", ParquetSink("tables/invoices"))
renamed = Pipeline("renamed")
renamed.source("orders", FileSource("landing", schema="amount int")).sink("t", ParquetSink("tables/old"))
""",
    "tables/invoices/_owner": '{"pipeline": "billing", "sink": "invoices", "database": "of-billing"}',
    "tables/old/checkpoint=1/0-1-a.parquet": "",
    "syntax.py": "shop = Pipeline(\n",
    "raises.py": "import json\n\nshop = json.loads('{')\n",
    "imports.py": "import a_package_that_is_not_there\n",
}


class Asked(NamedTuple):
    wrong: str
    command: str
    environment: tuple[tuple[str, str], ...] = ()


NOWHERE = (("TIDEGATE_DATABASE_URL", "postgresql+psycopg2://runner:secret@127.0.0.1:1/tidegate"),)

COMMANDS = [
    Asked("a command that there is not", "tidegate checkpiont shop"),
    Asked("no pipeline", "tidegate run"),
    Asked("a pipeline that is not registered", "tidegate run shp"),
    Asked("a module that is not there", "tidegate run lost"),
    Asked("a name that the module does not have", "tidegate run storefront:shopp"),
    Asked("something that is no pipeline", "tidegate run number"),
    Asked("a module that is no Python", "tidegate run syntax:shop"),
    Asked("a module that raises", "tidegate run raises:shop"),
    Asked("a module that imports what is not installed", "tidegate run imports:shop"),
    Asked("a format that there is not", "tidegate checkpoints shop -o yaml"),
    Asked("a sink in the directory of another pipeline", "tidegate run taken"),
    Asked("a sink where a table already is", "tidegate run renamed"),
    Asked("the history of what never ran", "tidegate checkpoints shop"),
    Asked("a checkpoint that there is not", "tidegate checkpoint shop 7"),
    Asked("an ID that is no number", "tidegate checkpoint shop seven"),
    Asked("a checkpoint to show, and a request for one", "tidegate checkpoint shop 7 --request-id x"),
    Asked("a savepoint that there is not", "tidegate savepoint shop before"),
    Asked("two ways to say which", "tidegate restore shop --latest --undo"),
    Asked("no way to say which", "tidegate restore shop"),
    Asked("a restore to what is not kept", "tidegate restore shop --checkpoint 7"),
    Asked("a restore to a savepoint that there is not", "tidegate restore shop --savepoint before"),
    Asked("an undo of nothing", "tidegate restore shop --undo"),
    Asked("a savepoint to delete that there is not", "tidegate dispose shop before"),
    Asked("a source that there is not", "tidegate source replace shop ordres 1.csv"),
    Asked("a correction of a file that was never read", "tidegate source replace shop orders 1.csv"),
    Asked("an approval of what is not held", "tidegate approve shop --comment fine"),
    Asked("a database that does not answer", "tidegate checkpoints shop", NOWHERE),
    Asked(
        "a database of another kind", "tidegate checkpoints shop", (("TIDEGATE_DATABASE_URL", "mysql://127.0.0.1/x"),)
    ),
]
