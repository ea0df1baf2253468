"""Which strategy has the least error: the operators of HDMM, p-Identity, eigen-design, and lower bounds."""
