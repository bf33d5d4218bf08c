"""The five operators: changes of placement in flight, one file each."""
