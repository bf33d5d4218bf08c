"""PostgreSQL as a sink: beside the data, the rows that say who may write what and from where on.

    fence      PostgresSink: what an owner asks: claim, advance, write_ddl, close, and the records
               of batches and copies
    gate       what a task does at both ends of its own transaction
    session    how both connect

    tables     the schema `lockgate` at the target, and how it comes to be
    rows       those tables' rows as values, and the turnstile in front of them
    claim, turnover, advance, ddl, close, parts, chunks, hold    the verbs, each on a cursor
    blockers   who is in a claim's way, and how they are put out of it

    apply      one item of a task: changes in, their net effect at the target, a receipt out
    log, window, snapshots, keys                  the changes, and which of them count
    net, compact, unchanged, images               their net effect, each key once
    target, merge, staging, wipe, ordered         how it is written
    copybinary, numerics, copytext                rows as the bytes of COPY
    refused, reuse                                which row was not taken; sessions that are kept

`sim/sink.py` is the picture that all of this has to keep; a test holds the two against each other.

**One order of locks**, so that nobody waits in a circle: the feed's turnstile, the span's
turnstile, the feed's row, the spans' rows by name; the data comes last.
"""
