from cases import for_each

from tidegate.protocol.text.sentences import UNTOUCHED, reassured


@for_each(
    ("text", "read"),
    [
        ("It failed", f"It failed. {UNTOUCHED}"),
        ("It failed. ", f"It failed. {UNTOUCHED}"),
        ("Did it?", f"Did it? {UNTOUCHED}"),
        ("", UNTOUCHED),
        (f"It failed. {UNTOUCHED} Try again", f"It failed. {UNTOUCHED} Try again."),
    ],
)
def test_the_words_of_others_end_with_a_full_stop_and_the_assurance_comes_once(text, read):
    assert reassured(text) == read
