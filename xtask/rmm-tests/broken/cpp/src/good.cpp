// A function that the tests call.
int in_the_library() { return 1; }
