/* A right program that also calls what the software device does not serve, and goes on without it. The argument says what:
 *   tables   the private tables that the CUDA runtime needs
 *   found    the same, by a function that the driver finds
 *   arrays   an array for textures */
#include <stdio.h>
#include <string.h>

#include "driver.h"

int cuGetExportTable(const void **table, const void *id);
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status);
int cuArrayCreate_v2(Handle *array, const void *description);

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    char description[256] = {0};
    Handle context, array;
    const void *table;
    int (*found)(const void **, const void *) = 0;
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0) return 9;
    if (strcmp(mode, "tables") == 0 && cuGetExportTable(&table, description) == 0) return 8;
    if (strcmp(mode, "found") == 0) {
        if (cuGetProcAddress_v2("cuGetExportTable", (void **)&found, 13000, 0, 0) != 0) return 7;
        if (found(&table, description) == 0) return 8;
    }
    if (strcmp(mode, "arrays") == 0 && cuArrayCreate_v2(&array, description) == 0) return 8;
    return cuDevicePrimaryCtxRelease_v2(0);
}
