"""The soak: Lockgate is hurt again and again under live writers, and must lose nothing.

    make soak                        # the service for 30 minutes, then its HTTP interface
    make soak MINUTES=5
    python -m soak --minutes 5       # three nodes and two feeds: kills, pauses, partitions, people
    python -m soak runner --kills 9  # `lockgate feed run` is killed again and again
    python -m soak fuzz              # a real node is asked 10,000 things that nobody thought of

At the end nothing is hurt any more, all feeds become level, and every row of every table is
compared: 0 missing, 0 extra, 0 different.
"""
