"""What a person reads is whole sentences, also where one part is somebody else's words."""

UNTOUCHED = "Committed data and the latest completed checkpoint are untouched."


def reassured(what: str) -> str:
    """The text, with a full stop, and that nothing of what was committed has changed: once, if it says so itself."""
    text = what.strip()
    if text and text[-1] not in ".!?…":
        text += "."
    return text if "untouched" in text else f"{text} {UNTOUCHED}".strip()
