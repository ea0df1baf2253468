"""Budgets and conversions, events, exact noise, private selection, the ledger, and the gate all noise leaves by."""
