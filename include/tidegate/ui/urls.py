"""Where Airflow's pages point to in Tidegate's app. Cheap to import: operators and their links use it."""

from urllib.parse import quote, urlsplit

PREFIX = "/tidegate"


def docs_url(docs_path: str) -> str:
    """The URL of a verdict's `docs_path`, without scheme and host but below the path Airflow is served at."""
    # Airflow's configuration takes long to import, and a link is only made when it is shown.
    from airflow.configuration import conf

    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{base}{PREFIX}/docs/{quote(docs_path)}"
