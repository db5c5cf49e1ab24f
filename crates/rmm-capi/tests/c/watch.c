#include <rmm_rs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(rmm_rs_status status, char const* what)
{
  if (status == RMM_RS_OK) { return; }
  char text[1024];
  rmm_rs_last_error_message(text, sizeof text);
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

/* Lets itself be watched until it has read a byte, and holds 1000 bytes meanwhile. */
int main(int argc, char **argv)
{
  rmm_rs_resource const* pool = NULL;
  check(rmm_rs_resource_from_spec("pool(cuda, initial=1MiB)", &pool), "the pool");
  check(rmm_rs_watch_resource("workers", pool), "the name");
  if (rmm_rs_watch_resource(NULL, pool) != RMM_RS_INVALID_ARGUMENT) { return 2; }
  if (rmm_rs_watch_resource("none", NULL) != RMM_RS_INVALID_ARGUMENT) { return 3; }
  if (argc > 1 && strcmp(argv[1], "asks") == 0) {
    check(rmm_rs_watch(), "the socket");
    check(rmm_rs_watch(), "the socket again");
  }
  void* memory;
  check(rmm_rs_resource_allocate_sync(pool, 1000, 256, &memory), "the memory");
  puts("ready");
  fflush(stdout);
  getchar();
  if (argc > 2) {
    rmm_rs_end_watching();
    puts("ended");
    fflush(stdout);
    getchar();
  }
  check(rmm_rs_resource_deallocate_sync(pool, memory, 1000, 256), "the free");
  rmm_rs_resource_release(pool);
  return 0;
}
