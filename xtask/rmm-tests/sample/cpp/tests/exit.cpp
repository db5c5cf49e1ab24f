// A program without a test framework that passes.
int main() { return 0; }
