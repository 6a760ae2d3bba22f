"""What is in doubt, on the page of tables and in the API."""

import html
import re

import pytest
from several_tables import SeveralTables

from tidegate.protocol.facts.errors import SinkError


def test_the_page_and_the_api_say_the_same(ask, store, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    shop = SeveralTables(store, tmp_path)
    shop.take()
    page = ask("/tidegate/pipelines/shop/tables").text
    assert "In doubt:" not in page
    assert ask("/tidegate/api/v1/pipelines/shop/doubts").json() == {"doubts": []}
    shop.block("now")
    with pytest.raises(SinkError):
        shop.coordinator.notify(shop.finalize())
    (doubt,) = ask("/tidegate/api/v1/pipelines/shop/doubts").json()["doubts"]
    assert (doubt["reason"], doubt["checkpoint_id"]) == ("FAILED", 2)
    page = html.unescape(re.sub(r"<[^>]+>|\s+", " ", ask("/tidegate/pipelines/shop/tables").text))
    assert "In doubt: checkpoint 2 , completed" in re.sub(" +", " ", page)
    for sentence in (doubt["why"], doubt["readers"], doubt["advice"]):
        assert sentence in page
