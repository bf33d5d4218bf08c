"""How changes are fetched from a PostgreSQL source: its slot, its publication, its bytes.

    names.py         what a feed's slot and publication are called
    errors.py        what can go wrong with them
    slot.py          the logical slot: made, read, advanced, taken over, dropped
    publication.py   which tables are sent
    wal.py           how much log the slot keeps from being removed
    heartbeat.py     a sign of life, so that the slot of an idle database moves on
    export.py        a snapshot at an exact position of the log

    wire.py          a connection as bytes: whole buffers from the socket, or through libpq
    inbox.py         the frames in these bytes
    stream.py        changes as they happen: the replication protocol
    backlog.py       changes that wait: copied out in bulk, four times as fast
    fetch.py         the two put together: what a capture reads from

Nothing here knows what is in a row; `pgoutput` decodes what comes out.
"""
