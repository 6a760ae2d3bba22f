"""Whole sentences for messages of which a part comes from elsewhere."""

UNTOUCHED = "Committed data and the latest completed checkpoint are untouched."


def reassured(what: str) -> str:
    """Return the text with a full stop, and with `UNTOUCHED` unless it has such a sentence."""
    text = what.strip()
    if text and text[-1] not in ".!?…":
        text += "."
    return text if "untouched" in text else f"{text} {UNTOUCHED}".strip()
