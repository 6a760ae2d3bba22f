"""The nouns of the protocol, their names, and the legal transitions.

Read `records` first, then the errors and the reasons of failures.
"""
