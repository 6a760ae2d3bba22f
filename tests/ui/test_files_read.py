"""The page Sources and the API list the files that a checkpoint has read, as a real source has written them down."""

import os
from pathlib import Path

import pytest
from readings import HOSTILE
from store_steps import PIPELINE, SOURCE, completed

from tidegate.ports import SourceContext
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage

API = f"/tidegate/api/v1/pipelines/{PIPELINE}/sources/{SOURCE.operator_id}/{SOURCE.subtask_index}"
PAGE = f"/tidegate/pipelines/{PIPELINE}/sources"
NAME = HOSTILE.replace("/", "")


@pytest.fixture
def read(tmp_path: Path, store) -> Path:
    """Three checkpoints: the first reads 201 files, the second one with a hostile name, the third none. Where the
    second one's list of files is."""
    storage = ArrowCheckpointStorage(str(tmp_path / "checkpoints"))
    landing = tmp_path / "landing"
    landing.mkdir()
    source, taken = FileSource(str(landing), schema="k STRING"), None
    for id_, names in ((1, [f"{number:03}.csv" for number in range(201)]), (2, [NAME]), (3, [])):
        for name in names:
            (landing / name).write_text("k\n")
            os.utime(landing / name, ns=(id_, id_))
        _, taken = source.poll(0, taken, SourceContext(storage, id_, f"{PIPELINE}/chk-{id_}/source/0-1-a"))
        completed(store, {SOURCE: list(taken.handles)})
    return tmp_path / "checkpoints" / PIPELINE / "chk-2" / "source" / "0-1-a.parquet"


def test_the_files_of_a_checkpoint_are_those_that_it_has_read(ask, read) -> None:
    second = ask(f"{API}?checkpoint=2").json()
    assert second["files"] == [{"path": NAME, "bytes": 2}]
    assert (second["total"], second["checkpoint_id"]) == (1, 2)
    first = ask(f"{API}?checkpoint=1").json()
    assert (first["total"], len(first["files"]), first["files"][0]["path"]) == (201, 200, "000.csv")
    latest = ask(API).json()
    assert (latest["total"], latest["files"]) == (0, [])
    shown = ask(f"{PAGE}?checkpoint=2&source={SOURCE.operator_id}").text
    assert "&lt;script&gt;" in shown
    assert "<script>alert" not in shown
    assert "The first 200 of 201." in ask(f"{PAGE}?checkpoint=1&source={SOURCE.operator_id}").text


def test_a_source_without_lists_says_so(ask, store) -> None:
    completed(store)
    assert ask(API).json()["total"] is None


def test_what_there_is_not(ask, read) -> None:
    assert ask(f"{API}?checkpoint=9").status_code == 404
    assert ask(f"{API}9").status_code == 404
    assert ask(API.replace("/0", "/-1")).status_code == 422
    assert "has no split" in ask(f"{PAGE}?source={SOURCE.operator_id}&split=7").text


def test_a_list_that_was_damaged_is_not_shown(ask, read) -> None:
    read.write_bytes(b"other")
    answer = ask(f"{API}?checkpoint=2")
    assert answer.status_code == 404
    assert "damaged" in answer.json()["errors"][0]
    page = ask(f"{PAGE}?checkpoint=2&source={SOURCE.operator_id}")
    assert (page.status_code, "is damaged" in page.text) == (200, True)
