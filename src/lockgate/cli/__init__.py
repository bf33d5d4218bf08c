"""The command line. One file per group of commands; nothing heavy is imported before it runs."""
