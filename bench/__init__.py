"""Measures Lockgate against its goals: `python -m bench [NAME…] [--quick]`.

Each benchmark is one module with a `BENCHMARK`; `registry` lists them. A benchmark consists of
cases, and every case runs in a process of its own (`worker`), so that its memory is its own.
Results are kept in `bench/results`, as JSON for machines and as `summary.md` for people.

Being slower than a goal is a finding, not an error: it is told, and the exit code stays 0.
"""
