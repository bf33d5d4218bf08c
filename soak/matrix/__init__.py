"""The crash matrix: every operator, at every one of its states, while one of its nodes is killed.

    python -m soak.matrix [--operators move,split] [--victims owner] [--cells N] [--faults S]

Three real nodes, a metastore on PostgreSQL, a Spark that outlives the nodes, two feeds with divided
tables under writes that never rest. A cell of the matrix is: operator × state × before or after the
instructions of that moment are carried out × whom SIGKILL hits. For each: bring the operator about,
stand its owner still there (`soak.failpoints`), kill, let go, start the killed node again. Then the
cluster must converge by itself, each key of each table must be covered by exactly one span, nobody
may run what nobody intends, and both sides must hold the same rows. All the while somebody looks at
the target: there each key is covered once at every moment, and no token or position ever goes back.

With `--faults`, ways break instead of nodes (`faults`): links, metastore, source, target.
"""
