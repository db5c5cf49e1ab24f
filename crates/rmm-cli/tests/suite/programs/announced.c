/* One stream writes a buffer, the host waits for that without a call of the driver, and another stream writes the buffer.
 * The first argument says for what the host waits: `flag` that a host function sets, `condition` variable that it signals,
 * `byte` of pinned memory that a copy writes. With a second argument, the program announces that it has waited. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

__attribute__((weak)) void rmm_sim_stream_completed(Handle stream);

static atomic_int flag;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int is_signalled;

static void set(void *data) { atomic_store((atomic_int *)data, 1); }

static void signal_condition(void *data) {
    pthread_mutex_lock(&mutex);
    *(int *)data = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *what = arguments[1];
    Handle context, first, second;
    Address memory;
    void *pinned;
    alarm(60);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&first, 1));
    CHECK(cuStreamCreate(&second, 1));
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuMemHostAlloc(&pinned, 1, 0));
    *(volatile unsigned char *)pinned = 0;
    CHECK(cuMemsetD8Async(memory, 7, 4096, first));
    if (strcmp(what, "flag") == 0) {
        CHECK(cuLaunchHostFunc(first, set, &flag));
        while (atomic_load(&flag) == 0) {}
    } else if (strcmp(what, "condition") == 0) {
        CHECK(cuLaunchHostFunc(first, signal_condition, &is_signalled));
        pthread_mutex_lock(&mutex);
        while (!is_signalled) pthread_cond_wait(&condition, &mutex);
        pthread_mutex_unlock(&mutex);
    } else {
        CHECK(cuMemcpyDtoHAsync_v2(pinned, memory, 1, first));
        while (*(volatile unsigned char *)pinned != 7) {}
    }
    if (count > 2 && rmm_sim_stream_completed) rmm_sim_stream_completed(first);
    CHECK(cuMemsetD8Async(memory, 8, 4096, second));
    CHECK(cuStreamSynchronize(first));
    CHECK(cuStreamSynchronize(second));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemFree_v2(memory));
    CHECK(cuStreamDestroy_v2(first));
    CHECK(cuStreamDestroy_v2(second));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
