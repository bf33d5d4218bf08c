"""PgBouncer, as far as a flip of the traffic needs it: its console, and the file of databases."""
