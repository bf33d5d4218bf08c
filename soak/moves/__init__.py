"""Moves under SIGKILL, under load, and again and again.

    python -m soak.moves matrix [--commands switch,cancel] [--victims keeper] [--cells N]
    python -m soak.moves flips [--flips 10] [--writers 4]
    python -m soak.moves renames [--rounds 200] [--at-once 5]

*matrix*: a cell is a command × a step of it × before or after it acts × whom SIGKILL hits: the
node that keeps the move, so that another one goes on; or all nodes, which are then started again.
For each: stand the step still (`soak.failpoints`), kill, and let the others see to it. A command is
then either done or put back, as its step says; nothing else. All the while a prober writes at both
sides at once, in transactions that it rolls back: never are both open, never none for longer than a
flip may take. A writer with a ledger of its own finds each of its rows as it was acknowledged. The
moves have a command hook: at rest it holds nothing, and has sent the traffic to who has it.

*flips*: there and back under load, by writers that follow the routes. *renames*: complete --rename
under heavy writes, of small tables, several at a time.

    writer, ledger, judge   who writes, what was acknowledged, whether a side holds just that
    prober                  who can write where
    hook                    what holds the traffic, and whether it let go
    leftovers               what a move must not leave
    world                   nodes, sides, moves
    cells, trial   the matrix     flips     renames
"""
