/* The first program of the README: a pool, memory in the order of a stream, and an error with its text. */
#include <rmm_rs.h>

#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                                     \
  do {                                                                                  \
    rmm_rs_status status_ = (call);                                                     \
    if (status_ != RMM_RS_OK) {                                                         \
      char text_[256];                                                                  \
      rmm_rs_last_error_message(text_, sizeof text_);                                   \
      fprintf(stderr, "line %d: status %d: %s\n", __LINE__, (int)status_, text_);       \
      return 1;                                                                         \
    }                                                                                   \
  } while (0)

int main(void) {
  const rmm_rs_resource *pool, *nothing;
  rmm_rs_stream *stream;
  rmm_rs_pool_statistics statistics;
  char text[256];
  void *first, *second;

  if (rmm_rs_abi_version() >> 16 != RMM_RS_ABI_VERSION >> 16) return 2;
  if (rmm_rs_resource_from_spec("pol(cuda)", &nothing) != RMM_RS_INVALID_ARGUMENT || nothing) return 3;
  rmm_rs_last_error_message(text, sizeof text);
  printf("%s\n", text);

  CHECK(rmm_rs_resource_from_spec("statistics(pool(cuda, max=64MiB))", &pool));
  CHECK(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &stream));
  CHECK(rmm_rs_resource_allocate(pool, rmm_rs_stream_handle(stream), 1000, 256, &first));
  CHECK(rmm_rs_resource_deallocate(pool, rmm_rs_stream_handle(stream), first, 1000, 256));
  CHECK(rmm_rs_resource_allocate(pool, rmm_rs_stream_handle(stream), 1000, 256, &second));
  printf("%s\n", first == second ? "the same block, in the order of the stream" : "another block");
  CHECK(rmm_rs_resource_deallocate(pool, rmm_rs_stream_handle(stream), second, 1000, 256));

  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  CHECK(rmm_rs_pool_statistics_get(pool, &statistics));
  printf("%d allocations, %d bytes live\n", (int)statistics.allocations, (int)statistics.live_bytes);

  rmm_rs_resource_release(pool);
  rmm_rs_stream_release(stream);
  return 0;
}
