"""The ledger: all charges to a dataset (`ledger`), chained by hashes (`ledger_chain`), in a file, and as a table."""

from hush.privacy.ledger.ledger import Ledger, open_account, open_ledger, terms_of

__all__ = ["Ledger", "open_account", "open_ledger", "terms_of"]
