"""The coordinator: gives every feed exactly one owner at a time, and keeps what people asked for.

coordinator.py   the machine: loading, active, deposed; which event goes where
feeds.py         a feed's life: every state, every occasion, what follows
book.py          the feeds as decided and as durable, and the only writer of them
roster.py        the nodes: who is a member, who was heard, what each reported last
ownership.py     who owns what: raise the epoch, then tell; stop whoever is not the owner
care.py          what is done for all feeds on every tick: owners, drains, balance, retries
verbs.py         what people ask, as occasions of a feed's life
verdicts.py      what a maintainer's report means for its feed
placement.py     which node: the least loaded, with slack
drain.py         emptying a node
"""
