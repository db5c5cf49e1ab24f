/* The end of a process with everything left open: the pool in the registry, memory allocated, threads alive, and calls
 * from exit handlers that run before and after the library's own. */
#include <rmm_rs.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const rmm_rs_resource *pool;
static const rmm_rs_client *client;
static const rmm_rs_resource *pages;
static rmm_rs_elastic *elastic, *left;
static rmm_rs_piece *pieces, *left_pieces;
static rmm_rs_imported *imported, *left_import;
static rmm_rs_segment_callback *observer;
static size_t piece_count, left_count;
static int ends;
static void *block, *client_block, *pending;

static void *thread(void *argument) {
  void *memory;
  (void)argument;
  for (;;) {
    if (rmm_rs_resource_allocate(pool, (void *)2, 4096, 256, &memory)) abort();
    if (memory && rmm_rs_resource_deallocate(pool, (void *)2, memory, 4096, 256)) abort();
  }
  return NULL;
}

/* No library that registers memory is called once the process ends. */
static bool observe(void *context, uint32_t event, void *base, uint64_t bytes) {
  (void)context, (void)event, (void)base, (void)bytes;
  if (ends) abort();
  return true;
}

static void late(void) {
  ends = 1;
  void *memory = &memory;
  char text[2][4] = {"???", "???"};
  uint64_t number = 7;
  if (rmm_rs_resource_describe(pool, text[0], 4) || text[0][0]) abort(); /* a text of no bytes, not none */
  if (rmm_rs_last_error_message(text[1], 4) || text[1][0]) abort();
  if (rmm_rs_pool_reserved_bytes(pool, &number) || number) abort();
  if (rmm_rs_resource_deallocate(pool, NULL, block, 1000, 256)) abort();
  if (rmm_rs_resource_allocate(pool, NULL, 1000, 256, &memory)) abort();
  if (rmm_rs_resource_trim(pool, 0, NULL)) abort();
  if (rmm_rs_client_free(client_block)) abort();
  if (rmm_rs_client_allocate(client, NULL, NULL, 1000, &memory) || memory) abort();
  if (rmm_rs_client_settle(client, true)) abort();
  if (rmm_rs_elastic_commit(elastic, 1 << 21, 1 << 21)) abort();
  number = 7;
  if (rmm_rs_elastic_decommit(elastic, 0, 1 << 21, true, &number) || number) abort();
  rmm_rs_elastic_release(elastic);
  rmm_rs_import_release(imported);
  rmm_rs_pieces_release(pieces, piece_count);
  rmm_rs_segment_callback_release(observer);
  rmm_rs_resource_release(pages);
  rmm_rs_client_release(client);
  rmm_rs_resource_release(pool);
}

static int share(rmm_rs_piece **list, size_t *count, rmm_rs_imported **memory) {
  const rmm_rs_resource *exportable;
  void *place;
  if (rmm_rs_virtual_resource_for_export(RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR, false, &exportable)) return 1;
  if (rmm_rs_resource_allocate_sync(exportable, 1000, 256, &place)) return 1;
  if (rmm_rs_export(place, 1000, list, count)) return 1;
  return rmm_rs_import(*list, *count, 0, true, &place, memory);
}

int main(void) {
  pthread_t threads[3];
  int i;
  if (atexit(late)) return 2; /* runs after the library's handler, which is registered later */
  if (rmm_rs_resource_from_spec("pool(cuda)", &pool)) return 3;
  if (rmm_rs_set_per_device_resource(0, pool, NULL)) return 4;
  for (i = 0; i < 1000; i++)
    if (rmm_rs_resource_allocate(pool, NULL, 1000, 256, &block)) return 5;
  if (rmm_rs_client_new(0, NULL, &client)) return 7;
  if (rmm_rs_client_allocate(client, NULL, NULL, 1000, &client_block)) return 8;
  if (rmm_rs_client_allocate(client, NULL, NULL, 1000, &pending)) return 9;
  if (rmm_rs_client_record_stream(pending, (void *)2) || rmm_rs_client_free(pending)) return 10;
  if (rmm_rs_virtual_resource_new(&pages)) return 11;
  if (rmm_rs_elastic_reserve(pages, 1 << 23, NULL, &elastic)) return 12;
  if (rmm_rs_elastic_commit(elastic, 0, 1 << 21)) return 13;
  if (rmm_rs_elastic_record_stream(elastic, 0, 1 << 21, (void *)2)) return 14;
  if (rmm_rs_elastic_reserve(pages, 1 << 23, NULL, &left) || rmm_rs_elastic_commit(left, 0, 1 << 21)) return 15;
  if (share(&pieces, &piece_count, &imported) || share(&left_pieces, &left_count, &left_import)) return 16;
  if (rmm_rs_pool_on_segment(pool, observe, NULL, NULL, &observer)) return 17;
  for (i = 0; i < 3; i++)
    if (pthread_create(&threads[i], NULL, thread, NULL)) return 6;
  printf("done\n");
  return 0;
}
