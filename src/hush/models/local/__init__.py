"""Tables that agree on all they share without one distribution behind them: fitting, asking, rows."""
