"""Answers of the API, held against the description that the API itself publishes."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator

PREFIX = "/tidegate"


class Description:
    """An OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.paths = {
            re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"): operations
            for path, operations in document["paths"].items()
        }

    def schema_of(self, path: str, method: str = "get", status: int = 200) -> dict[str, Any]:
        """Of the JSON that a path below the app answers with; the most exact path counts. Empty if it says nothing."""
        found = [each[method] for pattern, each in self.paths.items() if pattern.match(path) and method in each]
        assert found, f"{path} is not described"
        exact = min(found, key=lambda each: sum(one["in"] == "path" for one in each.get("parameters", ())))
        content = exact["responses"].get(str(status), {}).get("content", {})
        schema: dict[str, Any] = content.get("application/json", {}).get("schema", {})
        return schema

    def wrong(self, path: str, answer: Any, method: str = "get", status: int = 200) -> list[str]:
        """What about the answer is not as it is described."""
        schema = self.schema_of(path, method, status)
        if not schema:
            return [f"nothing says what {path} answers with {status}"]
        whole = {**schema, "components": self.document["components"]}
        errors = Draft202012Validator(whole).iter_errors(answer)
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in errors]


def path_of(url: str) -> str:
    return unquote(url.partition("?")[0]).removeprefix(PREFIX)
