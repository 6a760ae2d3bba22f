"""A savepoint is written to a directory of its own, moved elsewhere, and restored into an empty database: on Spark."""

import json
import shutil
import subprocess
import urllib.request

import pytest
from commands import Command, CommandHere, environment_of
from object_stores import Bucket
from orders import PROJECT, SHOP, Shop, check_tables, check_tables_of

from tidegate.cli.exit_codes import ExitCode
from tidegate.postgres.migrate import upgrade

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def environments(tmp_path, postgres_url, postgres_server, connect_server):
    """With a database that will be lost, and with an empty one."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "shop.py").write_text(SHOP)
    empty = f"{tmp_path.name.replace('-', '_')}_empty"
    postgres_server.create_database(empty)
    upgrade(postgres_server.url(empty))
    spark = {"TIDEGATE_SPARK_REMOTE": connect_server}
    return [environment_of(tmp_path, url) | spark for url in (postgres_url, postgres_server.url(empty))]


def rows_of_state(here, checkpoint_id):
    """Of each keyed operator."""
    found = {}
    for operator in ("totals", "balance", "visits"):
        ended = here("state", "orders", operator, "--checkpoint", str(checkpoint_id), "-o", "json")
        assert ended.returncode == ExitCode.OK, ended.stderr
        found[operator] = sorted(json.dumps(row, sort_keys=True) for row in json.loads(ended.stdout)["rows"])
    return found


@pytest.mark.long  # restore-a-checkpoint.md moves such a directory, and edit-state.md begins a pipeline with one
def test_a_moved_directory_is_restored_into_an_empty_database_and_the_pipeline_goes_on(
    environments, tmp_path, quick_python
):
    lost, empty = environments
    command, here, shop = Command(tmp_path, lost, quick_python), CommandHere(tmp_path, lost), Shop(tmp_path)

    def ok(ended):
        assert ended.returncode == ExitCode.OK, ended.stderr
        return ended

    shop.deliver(files=2)
    ok(command("run", "orders"))
    shop.deliver(files=1)
    taken = ok(command("savepoint", "orders", "--name", "kept", "--format", "canonical", "--to", "saved/one"))
    assert f"Savepoint kept of pipeline orders is complete in {tmp_path}/saved/one: " in taken.stderr
    then, state = list(shop.rows), rows_of_state(here, 2)
    (listed,) = json.loads(ok(here("savepoints", "orders", "-o", "json")).stdout)
    assert (listed["savepointFormat"], listed["savepoint_location"]) == ("CANONICAL", f"{tmp_path}/saved/one")
    assert listed["savepoint_size"] > 0
    repeated = ok(here("savepoint", "orders", "--name", "kept", "--format", "canonical", "--to", "saved/one"))
    assert "is complete in" in repeated.stderr
    elsewhere = here("savepoint", "orders", "--name", "kept", "--format", "canonical", "--to", "saved/two")
    assert (elsewhere.returncode, "Copy that directory" in elsewhere.stderr) == (ExitCode.USAGE, True)

    shop.deliver(files=1)
    ok(command("run", "orders"))
    check_tables(shop)
    shutil.move(tmp_path / "saved", tmp_path / "archive")
    shutil.rmtree(tmp_path / ".tidegate/checkpoints")

    command, here = Command(tmp_path, empty, quick_python), CommandHere(tmp_path, empty)
    planned = json.loads(ok(here("restore", "orders", "--from", "archive/one", "--dry-run", "-o", "json")).stdout)
    assert (planned["checkpoint"]["id"], planned["copied_from"]) == (2, f"{tmp_path}/archive/one")
    assert here("checkpoints", "orders").returncode == ExitCode.NOT_FOUND
    check_tables(shop)
    restored = ok(here("restore", "orders", "--from", "archive/one", "--yes"))
    assert "Pipeline orders was restored to checkpoint 2." in restored.stderr
    check_tables_of(shop, then)
    (known,) = json.loads(ok(here("checkpoints", "orders", "-o", "json")).stdout)
    assert known["id"] > 3
    assert rows_of_state(here, known["id"]) == state
    shutil.rmtree(tmp_path / "archive")
    ok(command("run", "orders"))
    check_tables(shop)


#: In it, `saved` is a disk of 8 KiB. Nobody else sees it, and where the kernel allows it, anybody may have one.
SMALL_DISK = ("unshare", "--mount", "--map-root-user", "sh", "-c", 'mount -t tmpfs -o size=8k tmpfs saved && exec "$@"')


@pytest.mark.long
def test_a_full_disk_leaves_the_savepoint_and_no_marker_and_the_command_is_repeated(environments, tmp_path):
    environment = {**environments[0], "TIDEGATE_SPARK_MASTER": "local[2]", "TIDEGATE_SPARK_REMOTE": ""}
    command, here, shop = Command(tmp_path, environment), CommandHere(tmp_path, environment), Shop(tmp_path)
    (tmp_path / "saved").mkdir()
    if subprocess.run([*SMALL_DISK, "sh", "true"], cwd=tmp_path, capture_output=True).returncode != 0:
        pytest.skip("this kernel lets nobody mount a small disk")
    shop.deliver(files=2)
    asked = ("savepoint", "orders", "--name", "kept", "--format", "canonical", "--to", "saved")
    failed = command.under(SMALL_DISK, *asked)
    assert failed.returncode == ExitCode.ABORTED, failed.stderr
    assert "Savepoint kept of pipeline orders was taken, and can be restored natively" in failed.stderr
    assert "Free some space" in failed.stderr
    assert "Repeat the same command" in failed.stderr
    check_tables(shop)
    (listed,) = json.loads(here("savepoints", "orders", "-o", "json").stdout)
    assert listed["savepointFormat"] == "NATIVE"
    finished = command(*asked)
    assert finished.returncode == ExitCode.OK, finished.stderr
    planned = json.loads(here("restore", "orders", "--from", "saved", "--dry-run", "-o", "json").stdout)
    assert planned["checkpoint"]["id"] == 1
    check_tables(shop)


@pytest.mark.long
def test_the_same_on_an_object_store(environments, tmp_path, bucket: Bucket):
    """Checkpoints, the savepoint and the archive are in a bucket. Spark runs in each command's process."""
    on_s3 = {**bucket.environment, "TIDEGATE_STORAGE": bucket.url, "TIDEGATE_SPARK_MASTER": "local[2]"}
    lost, empty = ({**each, **on_s3, "TIDEGATE_SPARK_REMOTE": ""} for each in environments)
    shop, archive = Shop(tmp_path), f"s3://{bucket.name}/checkpoints/archive"

    def ok(environment, *arguments):
        ended = Command(tmp_path, environment)(*arguments)
        assert ended.returncode == ExitCode.OK, ended.stderr
        return ended

    shop.deliver(files=2)
    ok(lost, "savepoint", "orders", "--name", "kept", "--format", "canonical", "--to", archive)
    then = list(shop.rows)
    shop.deliver(files=1)
    ok(lost, "run", "orders")
    check_tables(shop)
    for key in bucket.objects():
        if not key.startswith("archive/"):
            gone = urllib.request.Request(f"{bucket.endpoint}/{bucket.name}/checkpoints/{key}", method="DELETE")
            urllib.request.urlopen(gone, timeout=60).close()

    assert "was restored to checkpoint 1." in ok(empty, "restore", "orders", "--from", archive, "--yes").stderr
    check_tables_of(shop, then)
    ok(empty, "run", "orders")
    check_tables(shop)
