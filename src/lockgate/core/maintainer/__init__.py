"""The maintainer: the owner of one feed under one epoch."""
