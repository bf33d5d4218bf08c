"""Keepers of the core on threads of a node: what those of lakes and those of moves have in common.

hosts     which of them are here: all, while the coordinator is
host      one keeper on its thread: events in, instructions out, people's requests answered
carrier   what it wants done, done by threads
"""
