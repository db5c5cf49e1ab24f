// A source that does not compile: only the program that needs it is lost.
int missing_in_the_library( { return 1; }
