/* A program that is linked to the driver: one stream-ordered allocation after the other, on two streams, then a few others. */
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long address;
int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuStreamCreate(void **, unsigned), cuStreamDestroy_v2(void *), cuCtxSynchronize(void);
int cuMemAllocAsync(address *, size_t, void *), cuMemFreeAsync(address, void *);
int cuMemAlloc_v2(address *, size_t), cuMemFree_v2(address);
int cuMemsetD8Async(address, unsigned char, size_t, void *);
int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **);

static void check(int code, int line) {
    if (code) { printf("line %d: error %d\n", line, code); exit(1); }
}
#define CHECK(call) check((call), __LINE__)

static address filled(void *stream) {
    address a;
    CHECK(cuMemAllocAsync(&a, 1 << 16, stream));
    CHECK(cuMemsetD8Async(a, 1, 1 << 16, stream));
    return a;
}

int main(void) {
    void *context, *streams[2], *graph;
    int device;
    address a, first = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&streams[0], 1));
    CHECK(cuStreamCreate(&streams[1], 1));
    for (int i = 0; i < 100; i++) {
        void *stream = streams[i / 10 % 2];
        CHECK(cuMemAllocAsync(&a, 4096, stream));
        CHECK(cuMemsetD8Async(a, i, 4096, stream));
        CHECK(cuMemFreeAsync(a, stream));
        if (i == 0) first = a;
        if (i < 10 && a != first) printf("not reused\n");
    }
    CHECK(cuMemAlloc_v2(&a, 1 << 20));
    CHECK(cuMemFree_v2(a));
    CHECK(cuMemAllocAsync(&a, 100, NULL));
    CHECK(cuMemFree_v2(a)); /* the driver permits the mixture */
    CHECK(cuMemFree_v2(filled(streams[0]))); /* waits, so that any stream may have the block next */
    CHECK(cuMemFreeAsync(filled(streams[1]), streams[1]));
    CHECK(cuStreamDestroy_v2(streams[1])); /* its work goes on, and the next stream may have its handle */
    CHECK(cuStreamCreate(&streams[1], 1));
    CHECK(cuMemFreeAsync(filled(streams[1]), streams[1]));
    CHECK(cuStreamBeginCapture_v2(streams[0], 2));
    if (cuMemAllocAsync(&a, 4096, streams[0]) == 0) /* the graph's own, which the software device does not have */
        CHECK(cuMemFreeAsync(a, streams[0]));
    CHECK(cuStreamEndCapture(streams[0], &graph));
    if (cuMemFree_v2(0xdead00) == 0) printf("an unknown address was freed\n");
    CHECK(cuStreamDestroy_v2(streams[0]));
    CHECK(cuStreamDestroy_v2(streams[1]));
    CHECK(cuCtxSynchronize());
    printf("done\n");
    return 0;
}
