/* What ONNX Runtime's CUDA provider does with the three functions: it has their addresses as text, and no stream. */
#include <rmm_rs.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void *function(const char *text) { return (void *)(uintptr_t)strtoull(text, NULL, 10); }

int main(int count, char **arguments) {
  char option[3][32];
  void *(*allocate)(size_t);
  void (*deallocate)(void *), (*empty_cache)(void), *blocks[8];
  rmm_rs_stream *stream = NULL;
  uint64_t reserved;
  const rmm_rs_resource *resource;
  int round, i;

  snprintf(option[0], sizeof option[0], "%" PRIuPTR, (uintptr_t)rmm_rs_ort_allocate);
  snprintf(option[1], sizeof option[1], "%" PRIuPTR, (uintptr_t)rmm_rs_ort_deallocate);
  snprintf(option[2], sizeof option[2], "%" PRIuPTR, (uintptr_t)rmm_rs_ort_empty_cache);
  *(void **)&allocate = function(option[0]);
  *(void **)&deallocate = function(option[1]);
  *(void **)&empty_cache = function(option[2]);
  if (count > 1 && arguments[1][0] == 'b') {
    if (rmm_rs_stream_new(0, &stream)) return 2;
    if (rmm_rs_ort_bind_stream(rmm_rs_stream_handle(stream))) return 3;
  }
  for (round = 0; round < 3; round++) {
    for (i = 0; i < 8; i++)
      if (!(blocks[i] = allocate((size_t)1 << (10 + i)))) return 4;
    for (i = 0; i < 8; i++) deallocate(blocks[i]);
  }
  deallocate(NULL);
  if (allocate((size_t)1 << 60)) return 5; /* out of memory is null */
  if (rmm_rs_get_per_device_resource(0, &resource)) return 6;
  empty_cache();
  if (rmm_rs_pool_reserved_bytes(resource, &reserved)) return 7;
  rmm_rs_resource_release(resource);
  printf("%d bytes are left\n", (int)reserved);
  return 0;
}
