/* Every function of the header in children of `fork`, while threads of the parent are inside the library: it fails with
 * the reason, or does nothing. None waits. */
#include <rmm_rs.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>
#include <new>

/* After so many seconds a child is ended by a signal. */
static const unsigned LONG = 60;
/* Children for each call: whether a lock is held at a fork is chance. */
static const int CHILDREN = 6;
/* How a child ends for which there is no call left. */
static const int NO_CALL = 77;

static const rmm_rs_resource *cuda, *pool, *arena, *fixed, *logging, *statistics, *tracking, *reservation;
static rmm_rs_stream *own;
static rmm_rs_pressure_callback *guard;
static rmm_rs_segment_callback *observer;
static const rmm_rs_client *client;
static rmm_rs_piece *pieces;
static size_t piece_count;
static rmm_rs_imported *imported;
static rmm_rs_elastic *elastic;
static void *block, *torch_block, *ort_block, *client_block;
static rmm_rs_graph_block const *graph_block;

/* What a child calls now. */
static const char *name = "";

static void *work(void *) {
  for (;;) {
    const rmm_rs_resource *all[] = {pool, arena, fixed, logging, statistics, tracking};
    rmm_rs_pool_statistics counters = {};
    char text[100];
    void *memory;
    rmm_rs_stream *stream;
    counters.size = sizeof counters;
    if (rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &stream)) abort();
    for (const rmm_rs_resource *resource : all) {
      for (size_t bytes : {1000, 3 << 20}) {
        void *handle = rmm_rs_stream_handle(stream);
        if (rmm_rs_resource_allocate(resource, handle, bytes, 256, &memory)) continue;
        if (rmm_rs_resource_deallocate(resource, handle, memory, bytes, 256)) abort();
      }
      rmm_rs_resource_describe(resource, text, sizeof text);
      rmm_rs_resource_trim(resource, 0, NULL);
    }
    if (rmm_rs_client_allocate(client, pool, rmm_rs_stream_handle(stream), 1000, &memory)) abort();
    if (rmm_rs_client_record_stream(memory, rmm_rs_stream_handle(own))) abort();
    if (rmm_rs_client_free(memory) || rmm_rs_client_settle(client, true)) abort();
    rmm_rs_stream_release(stream);
    if (rmm_rs_pool_statistics_get(pool, &counters)) abort();
    rmm_rs_tracking_outstanding(tracking, text, sizeof text);
    rmm_rs_resource_release(rmm_rs_resource_retain(pool));
  }
  return NULL;
}

static int refused(rmm_rs_status status) {
  char text[400];
  rmm_rs_last_error_message(text, sizeof text);
  return status != RMM_RS_OK && strstr(text, "after fork") ? 0 : 1;
}

/* Makes the call with this number. */
static int call(int wanted) {
  const rmm_rs_resource *made;
  rmm_rs_callbacks callbacks = {};
  rmm_rs_error detail = {};
  rmm_rs_pool_statistics counters = {};
  rmm_rs_statistics counts = {};
  rmm_rs_remedy remedy = {};
  rmm_rs_stream *stream;
  rmm_rs_pressure_callback *callback;
  rmm_rs_segment_callback *observing;
  const rmm_rs_client *made_client;
  rmm_rs_client_block found = {};
  rmm_rs_client_statistics usage = {};
  char text[400];
  uint64_t number;
  uint32_t kinds;
  bool single;
  size_t count;
  rmm_rs_piece *exported;
  rmm_rs_imported *made_import;
  rmm_rs_elastic *made_elastic;
  rmm_rs_elastic_figures figures = {};
  double fraction;
  void *memory, *handle = rmm_rs_stream_handle(own);
  int at = 0;
  callbacks.size = sizeof callbacks, detail.size = sizeof detail, counters.size = sizeof counters;
  counts.size = sizeof counts, remedy.size = sizeof remedy, found.size = sizeof found, usage.size = sizeof usage;
  figures.size = sizeof figures;
#define REFUSED(what) \
  if (name = #what, at++ == wanted) return refused(what)
#define DONE(what) \
  if (name = #what, at++ == wanted) return (what), 0
#define SUCCEEDS(what) \
  if (name = #what, at++ == wanted) return (what) == RMM_RS_OK ? 0 : 1
#define FALSE(what) \
  if (name = #what, at++ == wanted) return (what) ? 1 : 0
  REFUSED(rmm_rs_limiting_new(cuda, 1000, &made));
  REFUSED(rmm_rs_limiting_new_with_alignment(cuda, 1000, 512, &made));
  REFUSED(rmm_rs_aligned_new(cuda, 512, 0, &made));
  REFUSED(rmm_rs_logging_new(cuda, "/dev/null", false, &made));
  REFUSED(rmm_rs_logging_new_with_callback(cuda, [](void *, const char *) {}, NULL, NULL, 0, &made));
  REFUSED(rmm_rs_statistics_new(cuda, &made));
  REFUSED(rmm_rs_tracking_new(cuda, false, &made));
  REFUSED(rmm_rs_failure_callback_new(cuda, NULL, NULL, NULL, &made));
  REFUSED(rmm_rs_failure_callback_new_with_kinds(cuda, 1, NULL, NULL, NULL, &made));
  REFUSED(rmm_rs_prefetch_new(cuda, &made));
  REFUSED(rmm_rs_thread_safe_new(cuda, &made));
  REFUSED(rmm_rs_fallback_new(cuda, pool, &made));
  for (const rmm_rs_resource *resource : {cuda, pool, arena, fixed, logging, statistics, tracking, reservation}) {
    REFUSED(rmm_rs_resource_allocate(resource, NULL, 1000, 256, &memory));
    REFUSED(rmm_rs_resource_allocate(resource, handle, 1000, 256, &memory));
    SUCCEEDS(rmm_rs_resource_deallocate(resource, handle, block, 1000, 256));
    REFUSED(rmm_rs_resource_allocate_sync(resource, 1000, 256, &memory));
    SUCCEEDS(rmm_rs_resource_deallocate_sync(resource, block, 1000, 256));
    DONE(rmm_rs_resource_retain(resource));
    DONE(rmm_rs_resource_release(resource));
    DONE(rmm_rs_resource_equal(resource, pool));
    DONE(rmm_rs_resource_name(resource));
    DONE(rmm_rs_resource_properties(resource));
    REFUSED(rmm_rs_resource_upstream(resource, &made));
    REFUSED(rmm_rs_pool_set_maximum_size(resource, 1 << 20));
    REFUSED(rmm_rs_limiting_set_limit(resource, 1 << 20));
    REFUSED(rmm_rs_resource_limit_id(resource, &number));
    REFUSED(rmm_rs_limiting_allocated_bytes(resource, &number));
    REFUSED(rmm_rs_limiting_allocation_limit(resource, &number));
    REFUSED(rmm_rs_fixed_size_block_size(resource, &number));
    REFUSED(rmm_rs_resource_pool_handle(resource, &memory));
    REFUSED(rmm_rs_logging_flush(resource));
    DONE(rmm_rs_logging_header(resource, text, sizeof text));
    DONE(rmm_rs_resource_describe(resource, text, sizeof text));
    REFUSED(rmm_rs_resource_trim(resource, 0, &number));
    REFUSED(rmm_rs_resource_trim_blocking(resource, 0, &number));
    REFUSED(rmm_rs_resource_grant_access(resource, 0));
    REFUSED(rmm_rs_pool_reset_peak_reserved(resource));
    REFUSED(rmm_rs_resource_callbacks(resource, &callbacks));
  }
  REFUSED(rmm_rs_cuda_resource_new(&made));
  REFUSED(rmm_rs_async_resource_new(0, 0, &made));
  REFUSED(rmm_rs_async_resource_new_with_options(NULL, &made));
  REFUSED(rmm_rs_async_view_resource_new(NULL, &made));
  REFUSED(rmm_rs_async_managed_resource_new(&made));
  REFUSED(rmm_rs_async_pinned_resource_new(&made));
  REFUSED(rmm_rs_managed_resource_new(&made));
  REFUSED(rmm_rs_pinned_resource_new(&made));
  REFUSED(rmm_rs_registered_resource_new(0, -1, &made));
  REFUSED(rmm_rs_system_resource_new(&made));
  REFUSED(rmm_rs_sam_headroom_resource_new(0, &made));
  REFUSED(rmm_rs_host_resource_new(&made));
  REFUSED(rmm_rs_virtual_resource_new(&made));
  REFUSED(rmm_rs_host_virtual_resource_new(RMM_RS_NUMA_NODE_OF_DEVICE, 0, &made));
  REFUSED(rmm_rs_virtual_resource_for_export(RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR, false, &made));
  DONE(rmm_rs_export_kinds(pool, &kinds, NULL));
  DONE(rmm_rs_export_has_single_handle(pool, &single));
  REFUSED(rmm_rs_export(block, 1000, &exported, &count));
  REFUSED(rmm_rs_import(pieces, piece_count, 0, false, &memory, &made_import));
  DONE(rmm_rs_pieces_release(pieces, piece_count));
  REFUSED(rmm_rs_import_grant_access(imported, 0, true));
  DONE(rmm_rs_import_release(imported));
  REFUSED(rmm_rs_lease_connect("/nowhere.sock", RMM_RS_LEASE_READ, 0, 0, &made));
  REFUSED(rmm_rs_lease_lock(cuda, &kinds));
  REFUSED(rmm_rs_lease_commit(cuda));
  REFUSED(rmm_rs_lease_detach(cuda));
  REFUSED(rmm_rs_lease_attach(cuda, 0, false));
  REFUSED(rmm_rs_lease_put(cuda, "name", block, 1000, NULL, 0));
  REFUSED(rmm_rs_lease_get(cuda, "name", NULL, NULL, NULL, 0, NULL));
  REFUSED(rmm_rs_lease_walk_names(cuda, NULL, NULL));
  REFUSED(rmm_rs_elastic_reserve(cuda, 1 << 21, NULL, &made_elastic));
  REFUSED(rmm_rs_elastic_commit(elastic, 1 << 21, 1 << 21));
  REFUSED(rmm_rs_elastic_decommit(elastic, 0, 1 << 21, false, &number));
  REFUSED(rmm_rs_elastic_decommit(elastic, 0, 1 << 21, true, &number));
  REFUSED(rmm_rs_elastic_record_stream(elastic, 0, 1 << 21, handle));
  DONE(rmm_rs_elastic_figures_get(elastic, &figures));
  DONE(rmm_rs_elastic_end_graph_uses(elastic));
  DONE(rmm_rs_elastic_next_range(elastic, 0, &number, &number));
  DONE(rmm_rs_elastic_release(elastic));
  REFUSED(rmm_rs_resource_from_callbacks(&callbacks, &made));
  REFUSED(rmm_rs_effort_push(RMM_RS_EFFORT_NO_GROWTH, 0));
  REFUSED(rmm_rs_effort_pop());
  REFUSED(rmm_rs_capture_announce());
  REFUSED(rmm_rs_capture_withdraw());
  REFUSED(rmm_rs_client_new(0, NULL, &made_client));
  DONE(rmm_rs_client_retain(client));
  DONE(rmm_rs_client_release(client));
  REFUSED(rmm_rs_client_allocate(client, NULL, handle, 1000, &memory));
  REFUSED(rmm_rs_client_allocate(client, pool, handle, 1000, &memory));
  SUCCEEDS(rmm_rs_client_free(client_block));
  REFUSED(rmm_rs_client_record_stream(client_block, NULL));
  REFUSED(rmm_rs_client_find(client_block, &found));
  REFUSED(rmm_rs_client_walk(client, NULL, [](const rmm_rs_client_block *, void *) {}, NULL));
  REFUSED(rmm_rs_client_statistics_get(client, &usage));
  REFUSED(rmm_rs_client_reset_peaks(client));
  REFUSED(rmm_rs_client_reset_accumulated(client));
  REFUSED(rmm_rs_client_settle(client, true));
  REFUSED(rmm_rs_client_set_memory_fraction(client, 0.5));
  REFUSED(rmm_rs_client_memory_fraction(client, &fraction));
  rmm_rs_resource const* its = NULL;
  REFUSED(rmm_rs_client_resource(client, &its));
  rmm_rs_checkpoint const* checkpoint = NULL;
  REFUSED(rmm_rs_client_checkpoint(client, pool, &checkpoint));
  REFUSED(rmm_rs_checkpoint_restore(checkpoint, NULL, NULL, NULL));
  rmm_rs_checkpoint_release(NULL);
  rmm_rs_graph_block const* of_graph = NULL;
  REFUSED(rmm_rs_client_free_for_graph(client_block, &of_graph));
  DONE(rmm_rs_graph_block_release(graph_block));
  DONE(rmm_rs_abi_version());
  DONE(rmm_rs_version());
  REFUSED(rmm_rs_driver_status());
  DONE(rmm_rs_last_error_message(text, sizeof text));
  SUCCEEDS(rmm_rs_last_error_detail(&detail));
  DONE(rmm_rs_set_last_error("of the child"));
  FALSE(rmm_rs_ort_allocate(1000));
  DONE(rmm_rs_ort_deallocate(ort_block));
  DONE(rmm_rs_ort_empty_cache());
  REFUSED(rmm_rs_ort_bind_stream(handle));
  REFUSED(rmm_rs_default_pool_new(&made));
  REFUSED(rmm_rs_pool_new(cuda, NULL, &made));
  REFUSED(rmm_rs_pool_statistics_get(pool, &counters));
  REFUSED(rmm_rs_pool_reserved_bytes(pool, &number));
  REFUSED(rmm_rs_pool_maximum_size(pool, &number));
  REFUSED(rmm_rs_pool_walk(pool, [](const rmm_rs_pool_block *, void *) {}, NULL));
  REFUSED(rmm_rs_pool_trim(pool, 0, &number));
  REFUSED(rmm_rs_pool_release_unused(pool, &number));
  REFUSED(rmm_rs_pool_release_graph_memory(pool));
  REFUSED(rmm_rs_pool_stream_policy(pool, RMM_RS_STREAM_POLICY_KEPT));
  REFUSED(rmm_rs_pool_on_pressure(pool, NULL, NULL, NULL, &callback));
  DONE(rmm_rs_pressure_callback_release(guard));
  REFUSED(rmm_rs_pool_on_segment(pool, NULL, NULL, NULL, &observing));
  DONE(rmm_rs_segment_callback_release(observer));
  REFUSED(rmm_rs_get_per_device_resource(0, &made));
  REFUSED(rmm_rs_set_per_device_resource(0, pool, NULL));
  REFUSED(rmm_rs_reset_per_device_resource(0));
  DONE(rmm_rs_last_error_remedy_count());
  DONE(rmm_rs_last_error_remedy(0, &remedy));
  REFUSED(rmm_rs_pool_reserve(pool, 1000, &made));
  REFUSED(rmm_rs_reservation_remaining(reservation, &number));
  REFUSED(rmm_rs_reservation_release(reservation, &number));
  REFUSED(rmm_rs_pool_sleep(pool, NULL, &number));
  REFUSED(rmm_rs_pool_wake(pool, &number));
  DONE(rmm_rs_pool_is_asleep(pool));
  DONE(rmm_rs_pool_can_sleep(pool));
  REFUSED(rmm_rs_logging_new_with_columns(cuda, "/dev/null", false, 0, &made));
  REFUSED(rmm_rs_recorder_new(cuda, 0, false, nullptr, &made));
  REFUSED(rmm_rs_recorder_save(cuda, "/dev/null"));
  REFUSED(rmm_rs_pool_read_asleep(pool, torch_block, sizeof text, text));
  REFUSED(rmm_rs_resource_from_spec("cuda", &made));
  REFUSED(rmm_rs_statistics_get(statistics, &counts));
  REFUSED(rmm_rs_statistics_push(statistics, &counts));
  REFUSED(rmm_rs_statistics_pop(statistics, &counts));
  REFUSED(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &stream));
  REFUSED(rmm_rs_stream_adopt(handle, 0, &stream));
  DONE(rmm_rs_stream_handle(own));
  DONE(rmm_rs_stream_release(own));
  REFUSED(rmm_rs_stream_forget(handle));
  REFUSED(rmm_rs_arena_new(cuda, 0, false, &made));
  REFUSED(rmm_rs_fixed_size_new(cuda, 1024, 1, &made));
  REFUSED(rmm_rs_binning_new(cuda, 10, 12, &made));
  REFUSED(rmm_rs_binning_new_with_bins(cuda, NULL, NULL, 0, &made));
  if (name = "rmm_rs_torch_allocate(..)", at++ == wanted) try {
      return rmm_rs_torch_allocate(1000, 0, NULL), 1;
    } catch (const std::bad_alloc &) {
      return 0;
    }
  DONE(rmm_rs_torch_deallocate(torch_block, 1000, 0, NULL));
  DONE(rmm_rs_torch_record_stream(torch_block, handle));
  DONE(rmm_rs_torch_reset());
  DONE(rmm_rs_torch_set_memory_fraction(0.5, 0));
  REFUSED(rmm_rs_tracking_outstanding_bytes(tracking, &number));
  REFUSED(rmm_rs_watch());
  DONE(rmm_rs_end_watching());
  REFUSED(rmm_rs_watch_resource("pool", pool));
  DONE(rmm_rs_tracking_outstanding(tracking, text, sizeof text));
  REFUSED(rmm_rs_tracking_walk(tracking, [](const rmm_rs_tracked_block *, void *) {}, NULL));
  return NO_CALL;
}

#define MUST(what) \
  if ((what) != RMM_RS_OK) return printf("%s\n", #what), 2

int main() {
  pthread_t threads[2];
  int calls = 0;
  MUST(rmm_rs_cuda_resource_new(&cuda));
  MUST(rmm_rs_pool_new(cuda, NULL, &pool));
  MUST(rmm_rs_arena_new(cuda, 0, false, &arena));
  MUST(rmm_rs_fixed_size_new(cuda, 1 << 20, 16, &fixed));
  MUST(rmm_rs_logging_new(cuda, "/dev/null", true, &logging));
  MUST(rmm_rs_statistics_new(cuda, &statistics));
  MUST(rmm_rs_tracking_new(cuda, false, &tracking));
  MUST(rmm_rs_pool_reserve(pool, 1 << 20, &reservation));
  MUST(rmm_rs_pool_on_pressure(pool, [](void *, const rmm_rs_pressure *) { return false; }, NULL, NULL, &guard));
  MUST(rmm_rs_pool_on_segment(pool, [](void *, uint32_t, void *, uint64_t) { return true; }, NULL, NULL, &observer));
  MUST(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &own));
  MUST(rmm_rs_resource_allocate_sync(pool, 1000, 256, &block));
  const rmm_rs_resource *exportable;
  void *shared, *mapped;
  MUST(rmm_rs_virtual_resource_for_export(RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR, false, &exportable));
  MUST(rmm_rs_resource_allocate_sync(exportable, 1000, 256, &shared));
  MUST(rmm_rs_export(shared, 1000, &pieces, &piece_count));
  MUST(rmm_rs_import(pieces, piece_count, 0, true, &mapped, &imported));
  MUST(rmm_rs_elastic_reserve(exportable, 1 << 23, NULL, &elastic));
  MUST(rmm_rs_elastic_commit(elastic, 0, 1 << 21));
  MUST(rmm_rs_client_new(0, NULL, &client));
  MUST(rmm_rs_client_allocate(client, pool, rmm_rs_stream_handle(own), 1000, &client_block));
  MUST(rmm_rs_client_free_for_graph(client_block, &graph_block));
  MUST(rmm_rs_client_allocate(client, pool, rmm_rs_stream_handle(own), 1000, &client_block));
  torch_block = rmm_rs_torch_allocate(1000, 0, NULL), ort_block = rmm_rs_ort_allocate(1000);
  for (pthread_t &thread : threads)
    if (pthread_create(&thread, NULL, work, NULL)) return 2;
  for (;; calls++)
    for (int i = 0; i < CHILDREN; i++) {
      int status;
      pid_t child = fork();
      if (child == 0) {
        signal(SIGALRM, [](int) { _exit((dprintf(1, "it waits: %s\n", name), 1)); });
        alarm(LONG);
        int outcome = call(calls);
        if (outcome == 1) dprintf(1, "another outcome: %s\n", name);
        _exit(outcome);
      }
      if (waitpid(child, &status, 0) != child) return 2;
      if (WIFEXITED(status) && WEXITSTATUS(status) == NO_CALL) _exit(0);
      if (!WIFEXITED(status)) return printf("call %d: signal %d\n", calls, WTERMSIG(status)), 2;
      if (WEXITSTATUS(status)) break;
    }
}
