// Memory of other processes. The software driver has none, so the runtime's three functions are
// replaced: a handle has the address, and opening it returns that plus one gibibyte.
#include "harness.hpp"

#include <cstring>

using namespace harness;

namespace {

constexpr std::size_t moved = std::size_t{1} << 30;
int opened                  = 0;
int closed                  = 0;

}  // namespace

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer)
{
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &pointer, sizeof pointer);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned)
{
  ++opened;
  std::memcpy(out, &handle, sizeof *out);
  *out = static_cast<char*>(*out) + moved;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void*)
{
  ++closed;
  return cudaSuccess;
}

}  // extern "C"

TEST(memory_is_shared_by_its_segment_and_offset)
{
  std::vector<memory> blocks;
  for (std::size_t i = 0; i < 4; ++i) { blocks.push_back(ours().allocate(mib)); }
  std::vector<std::shared_ptr<void>> received;
  for (auto const& block : blocks) {
    auto const shared = ours().shareIpcHandle(block.get());
    check_equal(shared.handle.size(), sizeof(cudaIpcMemHandle_t), "bytes of the handle");
    received.push_back(ours().getIpcDevPtr(shared.handle));
    auto* const address = static_cast<char*>(received.back().get()) + shared.offset - moved;
    CHECK(address == block.get());
  }
  // Each segment is opened once, and closed with its last user.
  auto const segments = ours().snapshot().segments.size();
  check_equal(static_cast<std::size_t>(opened), segments, "opened segments");
  CHECK(closed == 0);
  received.clear();
  CHECK(closed == opened);
  auto const again = ours().getIpcDevPtr(ours().shareIpcHandle(blocks[0].get()).handle);
  CHECK(opened == closed + 1);
}

TEST(handles_go_to_native_and_come_from_it)
{
  auto const theirs = native().allocate(mib);
  auto const shared = native().shareIpcHandle(theirs.get());
  auto const here   = ours().getIpcDevPtr(shared.handle);
  CHECK(static_cast<char*>(here.get()) + shared.offset - moved == theirs.get());
  auto mapped     = shared.handle;
  mapped[1]       = 'e';
  auto const text = text_of_error<c10::Error>([&] { ours().getIpcDevPtr(mapped); });
  CHECK(text.find("expandable_segments") != std::string::npos);
  text_of_error<c10::Error>([&] { ours().getIpcDevPtr("short"); });

  auto const block = ours().allocate(mib);
  auto const sent  = ours().shareIpcHandle(block.get());
  auto const there = native().getIpcDevPtr(sent.handle);
  CHECK(static_cast<char*>(there.get()) + sent.offset - moved == block.get());
}
