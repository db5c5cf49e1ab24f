/* Two copies of the library in one process: each has pools of its own, and resources go from one to the other as tables
 * of functions. */
#include <rmm_rs.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LOAD(name) *(void **)&name = dlsym(other, "rmm_rs_" #name)

int main(int count, char **arguments) {
  rmm_rs_status (*resource_from_callbacks)(const rmm_rs_callbacks *, const rmm_rs_resource **);
  rmm_rs_status (*resource_callbacks)(const rmm_rs_resource *, rmm_rs_callbacks *);
  rmm_rs_status (*resource_allocate)(const rmm_rs_resource *, void *, size_t, size_t, void **);
  rmm_rs_status (*resource_deallocate)(const rmm_rs_resource *, void *, void *, size_t, size_t);
  rmm_rs_status (*pool_new)(const rmm_rs_resource *, const rmm_rs_pool_options *, const rmm_rs_resource **);
  void (*resource_release)(const rmm_rs_resource *);
  const rmm_rs_resource *pool, *there, *above, *back;
  rmm_rs_pool_statistics statistics;
  rmm_rs_callbacks table;
  void *other, *block;

  if (count < 2 || !(other = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL))) return 2;
  LOAD(resource_from_callbacks), LOAD(resource_callbacks), LOAD(resource_allocate), LOAD(resource_deallocate);
  LOAD(pool_new), LOAD(resource_release);
  if (resource_release == rmm_rs_resource_release) return 3; /* not another copy */

  if (rmm_rs_resource_from_spec("pool(cuda)", &pool)) return 4;
  memset(&table, 0, sizeof table);
  table.size = sizeof table;
  if (rmm_rs_resource_callbacks(pool, &table)) return 5;
  table.size = sizeof table;
  if (resource_from_callbacks(&table, &there)) return 6;
  if (pool_new(there, NULL, &above)) return 7;
  if (resource_allocate(above, NULL, 4096, 256, &block)) return 8;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  if (rmm_rs_pool_statistics_get(pool, &statistics)) return 9;
  printf("%d allocation for the other copy's pool\n", (int)statistics.allocations);

  memset(&table, 0, sizeof table);
  table.size = sizeof table;
  if (resource_callbacks(there, &table)) return 10;
  table.size = sizeof table;
  if (rmm_rs_resource_from_callbacks(&table, &back)) return 11;
  printf("%s\n", rmm_rs_resource_equal(pool, back) ? "what comes back is the same" : "another resource");

  if (resource_deallocate(above, NULL, block, 4096, 256)) return 12;
  resource_release(above);
  resource_release(there);
  if (rmm_rs_pool_statistics_get(back, &statistics)) return 13;
  printf("%d bytes live\n", (int)statistics.live_bytes);
  rmm_rs_resource_release(pool);
  rmm_rs_resource_release(back);
  return 0;
}
