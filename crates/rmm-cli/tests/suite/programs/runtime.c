// With STAND_IN, a library in place of libcudart; with REAL, one that does not start; else a program
// that is linked with such a library.
#include <stddef.h>

int cudaFree(void* pointer);

#if defined(STAND_IN)
int cuInit(unsigned flags);
int cudaFree(void* pointer) { return cuInit(0); }
#elif defined(REAL)
int cudaFree(void* pointer) { return 35; }
#else
int main(void) { return cudaFree(NULL); }
#endif
