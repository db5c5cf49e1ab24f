#include <rmm_rs.h>

#include <stdio.h>
#include <stdlib.h>

static void check(rmm_rs_status status, const char *what) {
  char text[512];
  if (status == RMM_RS_OK) return;
  rmm_rs_last_error_message(text, sizeof text);
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

int main(void) {
  const rmm_rs_client *client;
  rmm_rs_client_statistics usage = {.size = sizeof usage};
  rmm_rs_stream *owned[2];
  void *computes, *copies, *block;

  check(rmm_rs_client_new(0, NULL, &client), "a client of device 0");
  check(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &owned[0]), "the first stream");
  check(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &owned[1]), "the second stream");
  computes = rmm_rs_stream_handle(owned[0]), copies = rmm_rs_stream_handle(owned[1]);

  check(rmm_rs_client_allocate(client, NULL, computes, 1000, &block), "a block");
  /* kernels on the first stream; the second waits for them, and copies the block to the host */
  check(rmm_rs_client_record_stream(block, copies), "the use by the second stream");
  check(rmm_rs_client_free(block), "the free");
  /* the block comes back when both streams are done; the next calls see to that */
  check(rmm_rs_client_settle(client, true), "the wait for what was freed");

  check(rmm_rs_client_statistics_get(client, &usage), "the statistics");
  printf("%d bytes at most, %d now\n", (int)usage.allocated_bytes[0].peak, (int)usage.active_bytes[0].current);

  rmm_rs_client_release(client);
  rmm_rs_stream_release(owned[0]);
  rmm_rs_stream_release(owned[1]);
  return 0;
}
