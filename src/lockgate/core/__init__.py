"""The pure control plane: events in, instructions out. No clock, no random, no threads, no I/O."""
