"""The demo: two real servers, live writers, a feed between them, and the rows compared."""
