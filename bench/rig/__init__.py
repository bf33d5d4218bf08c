"""What the benchmarks of the data plane share: servers, rows, the peers, and Lockgate itself."""
