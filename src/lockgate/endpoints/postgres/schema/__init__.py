"""Tables of a PostgreSQL database: found, compared, and made anew elsewhere."""
