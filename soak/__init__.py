"""The soak: a feed that is killed again and again under live writers, and must lose nothing.

    make soak                    # 100 kills, at most 30 minutes
    make soak KILLS=10 MINUTES=10

    writers ──► source ──► lockgate feed run … ──► target
                              ▲         │
               SIGKILL ───────┘         └── Spark, which outlives the runners: that, too, is killed

At the end nothing is killed any more, the feed becomes level, and every row of every table is
compared: 0 missing, 0 extra, 0 different.
"""
