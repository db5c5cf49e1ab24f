/* Two streams fill and copy a buffer. With the argument "fixed", the second waits for the first, and the memory is
 * freed; without it, this has a race and a leak. With "twice", it frees memory twice. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    int fixed = strcmp(mode, "fixed") == 0;
    static unsigned char host[4096];
    Handle context, produce, consume, filled;
    Address memory;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&produce, 1));
    CHECK(cuStreamCreate(&consume, 1));
    CHECK(cuEventCreate(&filled, 2));
    CHECK(cuMemAlloc_v2(&memory, sizeof host));
    CHECK(cuMemsetD8Async(memory, 7, sizeof host, produce));
    CHECK(cuEventRecord(filled, produce));
    if (fixed) CHECK(cuStreamWaitEvent(consume, filled, 0));
    CHECK(cuMemcpyDtoHAsync_v2(host, memory, sizeof host, consume));
    CHECK(cuStreamSynchronize(consume));
    if (fixed) CHECK(cuMemFree_v2(memory));
    if (strcmp(mode, "twice") == 0) {
        CHECK(cuStreamSynchronize(produce));
        CHECK(cuMemFree_v2(memory));
        if (cuMemFree_v2(memory) == 0) return 8;
    }
    CHECK(cuEventDestroy_v2(filled));
    CHECK(cuStreamDestroy_v2(consume));
    CHECK(cuStreamDestroy_v2(produce));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    if (fixed && host[4095] != 7) return 7;
    return 0;
}
