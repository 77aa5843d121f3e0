"""One layer a file, each with its formula and source."""
