"""Row-exact comparison of tables on two PostgreSQL servers."""
