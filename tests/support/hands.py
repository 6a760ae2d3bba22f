"""Somebody who is logged in and does something by hand, over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from tidegate.ui.same_site import token_of

PIPELINE = "flight_delays"


@dataclass
class Hands:
    """Somebody who is logged in with a token."""

    get: Callable[..., httpx.Response]
    credential: str

    def do(
        self, path: str, request_id: str = "", headers: dict[str, str] | None = None, **given: Any
    ) -> httpx.Response:
        told = {"Tidegate-Token": token_of(self.credential)} if headers is None else headers
        body = {"request_id": request_id or str(uuid4())} | given
        url = f"/tidegate/api/v1/pipelines/{PIPELINE}/{path}"
        return self.get(url, token=self.credential, method="POST", headers=told, json=body)

    def audit(self, query: str = "") -> dict[str, Any]:
        document: dict[str, Any] = self.get(
            f"/tidegate/api/v1/pipelines/{PIPELINE}/audit{query}", token=self.credential
        ).json()
        return document


def said(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["sentence"]
