"""`tidegate …`: arguments, output and exit codes of the commands; every step is the coordinator's.

May import `assembly` and, when a command needs them, the packages below it; nothing heavy before that.
"""
