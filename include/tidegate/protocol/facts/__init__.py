"""The nouns of the protocol, what they are called, and what may follow what.

`records` first; errors and the reasons of failures.
"""
