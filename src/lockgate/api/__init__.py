"""HTTP: who may ask, what may be asked, and how answers and errors look. It decides nothing."""
