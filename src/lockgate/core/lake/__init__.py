"""The keeper of a lake: which home leads it, and what is done to its tables, in which order."""
