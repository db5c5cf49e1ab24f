#include <rmm_rs.h>

#include <stdio.h>

/* Asks a pool of 1 MiB for more than it has, and writes what was asked for to a file. */
int main(int count, char **arguments) {
  const rmm_rs_resource *pool, *recorder;
  void *blocks[4];
  char text[512];
  int used = 0;

  if (count < 2) return 2;
  if (rmm_rs_resource_from_spec("pool(cuda, max=1MiB)", &pool)) return 1;
  if (rmm_rs_recorder_new(pool, 1024, true, NULL, &recorder)) return 1;
  while (used < 4 && !rmm_rs_resource_allocate(recorder, NULL, 400000, 256, &blocks[used])) used++;
  rmm_rs_last_error_message(text, sizeof text);
  printf("%d blocks, then: %s\n", used, text);
  if (rmm_rs_recorder_save(recorder, arguments[1])) return 1;

  while (used--) rmm_rs_resource_deallocate(recorder, NULL, blocks[used], 400000, 256);
  rmm_rs_resource_release(recorder);
  rmm_rs_resource_release(pool);
  return 0;
}
