/* A program that is linked to the driver, and captures streams. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long address;
int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuStreamCreate(void **, unsigned), cuStreamDestroy_v2(void *);
int cuMemAllocAsync(address *, size_t, void *), cuMemFreeAsync(address, void *);
int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **);

static int (*begin_unseen)(void *, int), (*end_unseen)(void *, void **);
static void *contexts[2], *probe, *const own = (void *)2; /* the thread's own default stream */

static void check(int code, int line) {
    if (code) { printf("line %d: error %d\n", line, code); exit(1); }
}
#define CHECK(call) check((call), __LINE__)

/* Whether the library knows of any capture: only then it asks whether a stream is captured, and leaves the allocation to the driver. */
static int is_announced(void) {
    address a;
    void *graph;
    int code;
    CHECK(begin_unseen(probe, 2));
    code = cuMemAllocAsync(&a, 4096, probe);
    CHECK(end_unseen(probe, &graph));
    if (code == 0) CHECK(cuMemFreeAsync(a, probe));
    return code != 0;
}
#define ANNOUNCED(what) if (!is_announced()) printf("%s: not announced\n", what)
#define NOT_ANNOUNCED(what) if (is_announced()) printf("%s: still announced\n", what)

static void *capture_on_own_stream(void *context) {
    void *graph;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamBeginCapture_v2(own, 2));
    CHECK(cuStreamEndCapture(own, &graph));
    return NULL;
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *stream, *graph;
    int device;
    address a;
    pthread_t thread;
    if (!driver) return 2;
    *(void **)&begin_unseen = dlsym(driver, "cuStreamBeginCapture_v2");
    *(void **)&end_unseen = dlsym(driver, "cuStreamEndCapture");
    CHECK(cuInit(0));
    for (int i = 1; i >= 0; i--) {
        CHECK(cuDeviceGet(&device, i));
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], device));
        CHECK(cuCtxSetCurrent(contexts[i]));
    }
    CHECK(cuStreamCreate(&probe, 1));
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuMemAllocAsync(&a, 4096, probe));
    CHECK(cuMemFreeAsync(a, probe));
    NOT_ANNOUNCED("before any capture");

    CHECK(cuStreamBeginCapture_v2(own, 2));
    CHECK(pthread_create(&thread, NULL, capture_on_own_stream, contexts[0]));
    CHECK(pthread_join(thread, NULL));
    ANNOUNCED("a capture of another thread's own stream ended");
    capture_on_own_stream(contexts[1]);
    CHECK(cuCtxSetCurrent(contexts[0]));
    ANNOUNCED("a capture of the own stream on another device ended");
    CHECK(cuStreamEndCapture(own, &graph));
    NOT_ANNOUNCED("the own stream's capture ended");

    CHECK(cuStreamBeginCapture_v2(stream, 2));
    if (cuStreamBeginCapture_v2(stream, 2) == 0) printf("a stream is captured twice\n");
    ANNOUNCED("a second capture did not begin");
    if (cuStreamEndCapture(stream, NULL) == 0) printf("a capture ended without a graph\n");
    ANNOUNCED("the end was refused");
    if (cuStreamDestroy_v2((void *)0xdead00) == 0) printf("an unknown stream was destroyed\n");
    CHECK(cuStreamEndCapture(stream, &graph));
    NOT_ANNOUNCED("the capture ended");

    CHECK(cuStreamBeginCapture_v2(stream, 2));
    CHECK(cuStreamDestroy_v2(stream));
    NOT_ANNOUNCED("the captured stream was destroyed");
    CHECK(cuStreamDestroy_v2(probe));
    printf("done\n");
    return 0;
}
