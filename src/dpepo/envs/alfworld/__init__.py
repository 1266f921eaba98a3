"""ALFWorld: household tasks in text, by an engine of our own that plays the official games byte for byte."""
