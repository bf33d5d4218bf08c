"""The deterministic simulator: drives core through a hostile world and checks the five laws."""
