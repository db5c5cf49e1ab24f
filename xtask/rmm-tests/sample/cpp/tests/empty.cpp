// A program with a framework, and no test: it fails.
