"""No secret stays in a text that is kept."""

import time

from cases import for_each

from tidegate.protocol.text.masking import holds_secret, masked, masked_json


@for_each(
    ("text", "left"),
    [
        ("s3://KEY:geheim@bucket/x", "s3://***@bucket/x"),
        ("postgresql://amy:gehe@im@host/db and s3://k:geheim@b", "postgresql://***@host/db and s3://***@b"),
        ("https://host/x?a=1&sig=geheim&b=2", "https://host/x?a=1&sig=***&b=2"),
        ("s3://b/x?secret_key=geheim;Token=geheim", "s3://b/x?secret_key=***;Token=***"),
        ("host=h password=geheim dbname=d", "host=h password=*** dbname=d"),
        ("AWS_SECRET_ACCESS_KEY=geheim", "AWS_SECRET_ACCESS_KEY=***"),
        ("/a/path@x, memory://kept and amy@host", "/a/path@x, memory://kept and amy@host"),
        ("checkpoint 5 of p, retained=2", "checkpoint 5 of p, retained=2"),
    ],
)
def test_credentials_and_secret_values_are_masked_and_nothing_else(text: str, left: str) -> None:
    assert masked(text) == left
    assert masked(left) == left


@for_each("url", ["s3://k:geheim@b/x", "s3://k:ge@h/eim@b", "s3://b/x?secret_key=y", "s3://b?a=1&Token=y"])
def test_a_url_with_credentials_is_known(url: str) -> None:
    assert holds_secret(url)


@for_each("url", ["s3://b/x", "abfss://files@account/x", "/a:b@c/d", "s3://b/x?region=eu", "hdfs://host:8020/x", "a?b"])
def test_a_place_is_no_secret(url: str) -> None:
    assert not holds_secret(url)


def test_values_by_their_names() -> None:
    given = {"conf": {"password": "geheim", "db_password": "geheim", "name": "x", "to": ["s3://k:geheim@b"], "n": 5}}
    assert masked_json(given) == {
        "conf": {"password": "***", "db_password": "***", "name": "x", "to": ["s3://***@b"], "n": 5}
    }


@for_each("text", ["a", "a ", "?", "a://", "a://b@", "key=", "&key", "=", "é://", "-"], ids=ascii)
def test_a_hostile_text_takes_no_longer_than_it_is_long(text: str) -> None:
    began = time.process_time()
    masked(text * (2_000_000 // len(text)))
    assert time.process_time() - began < 10
