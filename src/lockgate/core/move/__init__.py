"""Moves: which steps a command is made of, and one keeper per move that goes through them."""
