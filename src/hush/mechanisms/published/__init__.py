"""Published mechanisms that hush keeps for comparison; each is private here, and says where it differs."""
