"""The composition root: a process that drives the core and carries out what it says."""
