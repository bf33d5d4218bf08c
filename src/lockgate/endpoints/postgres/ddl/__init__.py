"""Schema changes: logged at the source, understood, and written at the target."""
