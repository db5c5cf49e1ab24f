/* A program that is linked to the driver: each stream is destroyed while its work goes on, and the next one needs its memory. */
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long address;
int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuStreamCreate(void **, unsigned), cuStreamDestroy_v2(void *), cuCtxSynchronize(void);
int cuMemAllocAsync(address *, size_t, void *), cuMemFreeAsync(address, void *);
int cuMemsetD8Async(address, unsigned char, size_t, void *);

static void check(int code, int line) {
    if (code) { printf("line %d: error %d\n", line, code); exit(1); }
}
#define CHECK(call) check((call), __LINE__)

static void use_all_memory(void *stream) {
    address a;
    CHECK(cuMemAllocAsync(&a, 1 << 20, stream));
    CHECK(cuMemsetD8Async(a, 1, 1 << 20, stream));
    CHECK(cuMemFreeAsync(a, stream));
}

int main(void) {
    void *context, *former, *next;
    int device, handles_reused = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&next, 1));
    for (int i = 0; i < 20; i++) {
        former = next;
        use_all_memory(former);
        if (i % 2) CHECK(cuStreamCreate(&next, 1)); /* a handle of its own */
        CHECK(cuStreamDestroy_v2(former));
        if (i % 2 == 0) CHECK(cuStreamCreate(&next, 1)); /* the handle that has just become free */
        handles_reused += next == former;
        use_all_memory(next);
    }
    CHECK(cuStreamDestroy_v2(next));
    CHECK(cuCtxSynchronize());
    printf("%d handles came back\n", handles_reused);
    return 0;
}
