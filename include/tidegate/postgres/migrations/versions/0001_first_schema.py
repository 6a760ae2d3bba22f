"""The first schema, as SQL in `first_schema/`. Once released, it is never edited.

A later migration is a Python file in this folder, numbered after the last, with the statements that change it.
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FILES = ("pipelines", "checkpoints", "history", "functions", "triggers", "views")


def upgrade() -> None:
    folder = Path(__file__).parents[1] / "first_schema"
    for name in FILES:
        # The driver is given no parameters, so it leaves every % and : unchanged.
        op.get_bind().exec_driver_sql((folder / f"{name}.sql").read_text(), execution_options={"no_parameters": True})
