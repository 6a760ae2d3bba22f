"""Messages are whole sentences, even if a part of them comes from elsewhere."""

UNTOUCHED = "Committed data and the latest completed checkpoint are untouched."


def reassured(what: str) -> str:
    """The text with a full stop, and with `UNTOUCHED` unless it says so itself."""
    text = what.strip()
    if text and text[-1] not in ".!?…":
        text += "."
    return text if "untouched" in text else f"{text} {UNTOUCHED}".strip()
