"""The vocabulary: ids, epochs, positions, spans, messages, errors, config."""
