/* Waits for work without a call of the driver that would run it. The argument says how:
 *   function  for a flag that a host function sets
 *   memory    for a byte that a copy writes to pinned memory
 *   query     by querying an event, while a host function waits for a flag that this thread sets
 *   forked    a child that is forked after cuInit has no driver, and ends
 * Ends with status 0, or after 20 seconds by a signal. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

static atomic_int flag;

static void set(void *data) { atomic_store((atomic_int *)data, 1); }

static void await(void *data) {
    while (atomic_load((atomic_int *)data) == 0) {}
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    Handle context, stream, event;
    alarm(20);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuEventCreate(&event, 2));
    if (strcmp(mode, "function") == 0) {
        CHECK(cuLaunchHostFunc(stream, set, &flag));
        await(&flag);
    } else if (strcmp(mode, "memory") == 0) {
        Address memory;
        void *host;
        CHECK(cuMemHostAlloc(&host, 1, 0));
        *(volatile unsigned char *)host = 0;
        CHECK(cuMemAlloc_v2(&memory, 1));
        CHECK(cuMemsetD8Async(memory, 7, 1, stream));
        CHECK(cuMemcpyDtoHAsync_v2(host, memory, 1, stream));
        while (*(volatile unsigned char *)host != 7) {}
        CHECK(cuEventRecord(event, stream));
        while (cuEventQuery(event) != 0) {}
        CHECK(cuMemFree_v2(memory));
        CHECK(cuMemFreeHost(host));
    } else if (strcmp(mode, "query") == 0) {
        CHECK(cuLaunchHostFunc(stream, await, &flag));
        CHECK(cuEventRecord(event, stream));
        if (cuEventQuery(event) != 600) return 8;
        set(&flag);
        while (cuEventQuery(event) != 0) {}
    } else if (strcmp(mode, "forked") == 0) {
        Address memory;
        CHECK(cuMemAlloc_v2(&memory, 4096));
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) return cuInit(0);
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3) return 7;
        CHECK(cuMemFree_v2(memory));
    } else {
        return 6;
    }
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
