"""The lake's own simulated world: homes that share a lake, and everything that can go wrong."""
