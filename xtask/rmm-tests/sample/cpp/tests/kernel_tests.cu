// Device code, which g++ does not compile.
__global__ void nothing() {}
