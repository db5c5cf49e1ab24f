#include <rmm_rs.h>

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the text of the failure, if the call failed. */
static void check(rmm_rs_status status, const char *what) {
  char text[512];
  if (status == RMM_RS_OK) return;
  rmm_rs_last_error_message(text, sizeof text);
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

int main(void) {
  const rmm_rs_resource *pool;
  rmm_rs_stream *owned;
  void *stream, *first, *second;

  check(rmm_rs_resource_from_spec("statistics(pool(max=64MiB))", &pool), "the pool");
  check(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &owned), "the stream");
  stream = rmm_rs_stream_handle(owned);

  check(rmm_rs_resource_allocate(pool, stream, 1000, 256, &first), "a block");
  /* kernels and copies on the stream */
  check(rmm_rs_resource_deallocate(pool, stream, first, 1000, 256), "its free");
  check(rmm_rs_resource_allocate(pool, stream, 1000, 256, &second), "another block");
  printf("%s\n", first == second ? "the same block, in the order of the stream" : "another block");
  check(rmm_rs_resource_deallocate(pool, stream, second, 1000, 256), "its free");

  rmm_rs_resource_release(pool);
  rmm_rs_stream_release(owned);
  return 0;
}
