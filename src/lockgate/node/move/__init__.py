"""Keepers of moves, and what they want done.

hosts      which moves are kept here, and who keeps them
executing  instructions, carried out by threads
steps      the table: what each step does, undoes, and would do
creating, flipping, ending   the steps, by the commands they belong to
losing     complete and cancel without a side that is gone for ever
feeds      the feeds of a move: made, frozen, let go on, removed
job        what a step works with: both sides, and the time that is left
"""
