"""The studio: the owner's page on this machine, and the public page of a release. README.md here is the map."""
