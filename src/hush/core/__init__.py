"""What every other room shares: domains, arrays, units, constraints, errors, validation, memory limits."""
