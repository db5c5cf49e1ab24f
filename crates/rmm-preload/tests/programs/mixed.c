/* A program that is linked to the driver, and a library of it that has the driver's own functions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;
int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAllocAsync(address *, size_t, void *), cuMemFreeAsync(address, void *);
int cuMemAlloc_v2(address *, size_t), cuMemFree_v2(address), cuMemsetD8_v2(address, unsigned char, size_t);
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);

static void check(int code, int line) {
    if (code) { printf("line %d: error %d\n", line, code); exit(1); }
}
#define CHECK(call) check((call), __LINE__)
#define REFUSED(call) do { if (!(call)) printf("line %d: not refused\n", __LINE__); } while (0)

static const size_t sizes[] = {256, 4096, 1 << 20, 2 << 20, 4 << 20, 100};
#define COUNT (sizeof sizes / sizeof *sizes)

int main(void) {
    void *context;
    int device;
    address blocks[COUNT];
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    REFUSED(cuMemAlloc_v2(NULL, 1024));
    REFUSED(cuMemAllocAsync(NULL, 1024, NULL));

    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*free_there)(address) = driver ? (int (*)(address))dlsym(driver, "cuMemFree_v2") : NULL;
    int (*free_async_there)(address, void *) = driver ? (int (*)(address, void *))dlsym(driver, "cuMemFreeAsync") : NULL;
    if (!free_there || !free_async_there) { printf("no driver\n"); return 1; }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            if (i % 2) CHECK(cuMemAllocAsync(&blocks[i], sizes[i], NULL));
            else CHECK(cuMemAlloc_v2(&blocks[i], sizes[i]));
        }
        for (size_t i = 0; i < COUNT; i++) {
            REFUSED(free_there(blocks[i]));
            REFUSED(free_async_there(blocks[i], NULL));
        }
        for (size_t i = 0; i < COUNT; i++) CHECK(cuMemsetD8_v2(blocks[i], 1, sizes[i]));
        for (size_t i = 0; i < COUNT; i++) {
            if (round % 2) CHECK(cuMemFree_v2(blocks[i]));
            else CHECK(cuMemFreeAsync(blocks[i], NULL));
        }
    }

    const char *names[] = {"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync", "cuStreamCreate", "cuStreamDestroy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *function = NULL;
        Dl_info where;
        int status = 0;
        CHECK(cuGetProcAddress_v2(names[i], &function, 12000, 0, &status));
        if (!dladdr(function, &where) || strstr(where.dli_fname, "rmm_preload")) printf("%s is not the driver's\n", names[i]);
    }
    printf("done\n");
    return 0;
}
