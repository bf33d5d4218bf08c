"""The soak of the service: three real nodes, two feeds, and everything that can go wrong at once.

    writers ──► source ══► nodes one, two, three ══► target         ══ through proxies that hurt
                             ║    Spark Connect
                             ╚══► metastore

    faults      SIGKILL of nodes, of Spark's workers or all of Spark, of each PostgreSQL server;
                SIGSTOP and later SIGCONT; lost, one-way, slow and silent connections
    people      move, split and merge spans, drain nodes, pause and resume feeds, copy tables anew
    writers     rows, columns and tables come, change and go

It goes in rounds. In each, one node is *spared*: nobody kills, pauses, drains or cuts it off, so
there is always one that can take over; the other two may both be away at the same time. After a
round everything is healed, and both feeds must come past where the source stood at that moment,
under writes, within a limit: a cluster that only ever becomes well when nobody writes is not well.

All the while somebody looks at the target (`soak.matrix.watcher`): each key is covered once at
every moment, and no token or position ever goes back.
"""
