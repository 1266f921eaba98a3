"""Teachers that know no more than their student: they search, read and conclude, a file per world."""
