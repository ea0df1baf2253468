"""How results look: text tables, HTML, charts, progress bars."""
