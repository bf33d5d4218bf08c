"""Delta Lake as a target: tables in two layers, each a Delta table behind a fence."""
