"""What a node does for one feed: its capture, its copy, its rounds."""
