"""What to measure for a workload, and with how much noise; nothing here reads data."""
