/* The functions of the driver that the programs call, as CUDA's cuda.h declares them. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *Handle;
typedef unsigned long long Address;
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(Handle *context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(Handle context);
int cuStreamCreate(Handle *stream, unsigned flags);
int cuStreamDestroy_v2(Handle stream);
int cuStreamSynchronize(Handle stream);
int cuLaunchHostFunc(Handle stream, void (*function)(void *), void *data);
int cuMemAlloc_v2(Address *memory, size_t bytes);
int cuMemFree_v2(Address memory);
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
int cuMemFreeHost(void *memory);
int cuMemsetD8Async(Address memory, unsigned char value, size_t bytes, Handle stream);
int cuMemcpyDtoHAsync_v2(void *target, Address source, size_t bytes, Handle stream);
int cuEventCreate(Handle *event, unsigned flags);
int cuEventRecord(Handle event, Handle stream);
int cuEventQuery(Handle event);
int cuEventDestroy_v2(Handle event);
int cuStreamWaitEvent(Handle stream, Handle event, unsigned flags);

/* Ends the program with status 9 if the call fails. */
#define CHECK(call)                                              \
    do {                                                         \
        int code = (call);                                       \
        if (code != 0) printf("%s: %d\n", #call, code), exit(9); \
    } while (0)
