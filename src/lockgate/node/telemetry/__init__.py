"""What a node tells of itself without being asked for: figures for Prometheus, lines of a log.

    logic ──► FeedWatch      one feed here: counts what was done, says what went wrong
    process ─► ProcessWatch  every event and instruction: counts, and Journal picks the moments
    api ────► ApiWatch       every request
                 │
                 └──► NodeCollector ◄── looks at the core, the engines, the link, at each scrape

Logic calls a method of a watch and knows neither Prometheus nor the form of the log. Nothing here
decides anything, and nothing here may hinder the work: a watch that breaks is told of and ignored.
"""
