// A program without a test framework that fails.
int main() { return 3; }
