/* Makes one of each object that a program can forget to release, and releases none. */
#include <stddef.h>
#include <stdio.h>

#include "driver.h"

typedef struct { int type, id; } Location;
typedef struct { int type, handles; Location location; void *security; unsigned char flags[8]; } Physical;
typedef struct { int type, handles; Location location; void *security; size_t maximum; unsigned char reserved[56]; } Pool;
int cuCtxCreate_v2(Handle *context, unsigned flags, int device);
int cuStreamBeginCapture_v2(Handle stream, int mode);
int cuStreamEndCapture(Handle stream, Handle *graph);
int cuGraphInstantiateWithFlags(Handle *executable, Handle graph, unsigned long long flags);
int cuMemAllocAsync(Address *memory, size_t bytes, Handle stream);
int cuMemAllocManaged(Address *memory, size_t bytes, unsigned flags);
int cuMemPoolCreate(Handle *pool, const Pool *properties);
int cuMemAddressReserve(Address *start, size_t bytes, size_t alignment, Address hint, unsigned long long flags);
int cuMemCreate(unsigned long long *memory, size_t bytes, const Physical *properties, unsigned long long flags);
int cuMemMap(Address start, size_t bytes, size_t offset, unsigned long long memory, unsigned long long flags);

int main(void) {
    const Location device = {1, 0};
    const Physical physical = {.type = 1, .location = device};
    const Pool properties = {.type = 1, .location = device};
    const size_t bytes = 2 << 20;
    Handle context, other, stream, event, graph, executable, pool;
    Address memory, start;
    unsigned long long pages;
    void *host;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuEventCreate(&event, 2));
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuMemAllocAsync(&memory, 4096, stream));
    CHECK(cuMemAllocManaged(&memory, 4096, 1));
    CHECK(cuMemHostAlloc(&host, 4096, 0));
    CHECK(cuMemPoolCreate(&pool, &properties));
    CHECK(cuMemAddressReserve(&start, bytes, 0, 0, 0));
    CHECK(cuMemCreate(&pages, bytes, &physical, 0));
    CHECK(cuMemMap(start, bytes, 0, pages, 0));
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    return 0;
}
