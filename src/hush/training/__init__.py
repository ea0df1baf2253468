"""Private training of classifiers: DP-SGD, output perturbation, and what they cost."""
