"""Explanations of an object store's errors. The library's own texts hold ids of requests and keys, and name no way
out."""

import re
from typing import NamedTuple


class Refusal(NamedTuple):
    """The reason why a store refused a request, as the end of a sentence, and advice for the user."""

    why: str
    advice: str


NO_BUCKET = Refusal("there is no such bucket", "Create the bucket, or correct the URL")
_CREDENTIALS = "the keys, profile or role in the environment of every process that uses it, Spark's included"
_KNOWN = (
    ("NO_SUCH_BUCKET|NoSuchBucket", NO_BUCKET),
    (
        "INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN|InvalidToken|ExpiredToken|EXPIRED_TOKEN",
        Refusal("the store does not accept the credentials", f"Correct {_CREDENTIALS}"),
    ),
    (
        "ACCESS_DENIED|HTTP status 403",
        Refusal(
            "the store denies access, because there are no credentials, or wrong ones, or they lack the right to it",
            f"Check {_CREDENTIALS}",
        ),
    ),
    (
        "NETWORK_CONNECTION|curlCode",
        Refusal("the store cannot be reached", "Check that it runs, the connection, and AWS_ENDPOINT_URL if it is set"),
    ),
    (
        "SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|HTTP status 5",
        Refusal("the store is overloaded or has failed", "Wait until it has recovered"),
    ),
)


def refusal_in(error: BaseException) -> Refusal | None:
    """Return the refusal behind an error; None if it is no error of an object store, or an unknown one."""
    text = str(error)
    return next((refusal for pattern, refusal in _KNOWN if "AWS Error" in text and re.search(pattern, text)), None)
