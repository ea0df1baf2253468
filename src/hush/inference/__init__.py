"""From noisy answers to estimates, with their variances; nothing here reads private data."""
