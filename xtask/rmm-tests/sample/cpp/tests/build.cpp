// A source that does not compile.
int main() { return }
