"""Interleavings on real files: what several processes may do to one lake, at random.

    python -m soak.lake --runs 2000 --kills 120 --seed 1

A *run* is one interleaving: a lake of its own, a log of a source that nobody else has, and a seed.
Two homes share the lake. Home `a` has two nodes that may keep it, home `b` has one; each home has a
feed that lands the same log at its own pace, and a reader reads all the time. People ask for
drains, drops, step-ups and step-downs; nodes are paused, replaced and killed. In the end everything
is healed, and every file and every row is looked at.

    source      the log, and what each table has to be at each position of it
    points      where work can be held up, or its process killed, in between
    actor       a process that is told what to do and answers
    keeper      the keeper of the lake in such a process: the real one, with the real executor
    feed        a feed that lands the log, through the real fence
    reader      whoever reads
    cast        all processes, kept alive from run to run
    people      what is asked, when
    run         one interleaving
    verdict     what must hold in the end
"""
