"""How files are read and written: the codec, archives, atomic writes, CSV cells."""
