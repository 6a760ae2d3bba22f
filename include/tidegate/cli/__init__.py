"""`tidegate …`: what a person types, what is printed, and the exit codes; every step is the coordinator's.

May import `assembly` and, when a command needs them, the rooms below it; nothing heavy before that.
"""
