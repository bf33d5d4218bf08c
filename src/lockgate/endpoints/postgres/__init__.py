"""PostgreSQL as an endpoint."""
