// Memory of other processes: of cudaMalloc, and of virtual memory that was made for export, which
// this process maps a second time. The software driver has no IPC for the former, so the runtime's
// three functions are replaced: a handle has the address, and opening it returns that plus one
// gibibyte.
#include "harness.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>

using namespace harness;

namespace {

constexpr std::size_t moved = std::size_t{1} << 30;
int opened                  = 0;
int closed                  = 0;
bool is_refused             = false;

constexpr auto exportable = "pool(virtual(export=posix_fd), max=64MiB)";

std::size_t open_files()
{
  auto const files = std::filesystem::directory_iterator{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

/// The bytes of device memory.
std::string contents(void const* from, std::size_t bytes)
{
  std::string out(bytes, '\0');
  C10_CUDA_CHECK(cudaMemcpy(out.data(), from, bytes, cudaMemcpyDeviceToHost));
  return out;
}

}  // namespace

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer)
{
  if (is_refused) { return cudaErrorInvalidValue; }
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

TEST(virtual_memory_is_shared_by_block)
{
  // Of less than a page, and of several.
  constexpr std::size_t sizes[] = {1000, 4 * kib, 7 * mib, 300 * kib};
  std::vector<memory> blocks;
  for (auto const bytes : sizes) { blocks.push_back(ours(exportable).allocate(bytes)); }
  for (std::size_t i = 0; i < 4; ++i) {
    C10_CUDA_CHECK(cudaMemset(blocks[i].get(), static_cast<int>('a' + i), sizes[i]));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    auto const shared = ours().shareIpcHandle(blocks[i].get());
    check_equal(shared.offset, 0, "bytes before the block");
    auto const here = ours().getIpcDevPtr(shared.handle);
    CHECK(here.get() != blocks[i].get());
    CHECK(ours().getIpcDevPtr(ours().shareIpcHandle(blocks[i].get()).handle) == here);
    CHECK(contents(here.get(), sizes[i]) == std::string(sizes[i], static_cast<char>('a' + i)));
    // A receiver may write.
    C10_CUDA_CHECK(cudaMemset(here.get(), 'z', 1));
    CHECK(contents(blocks[i].get(), 1) == "z");
  }
}

TEST(blocks_of_a_page_share_a_descriptor_until_they_are_freed)
{
  std::vector<memory> blocks;
  for (std::size_t i = 0; i < 40; ++i) { blocks.push_back(ours(exportable).allocate(4 * kib)); }
  // The software driver keeps a descriptor of what was ever exported.
  (void)ours().shareIpcHandle(ours().allocate(4 * kib).get());
  auto const before = open_files();
  for (auto const& block : blocks) { (void)ours().shareIpcHandle(block.get()); }
  CHECK(open_files() <= before + 2);
  auto const last = ours().shareIpcHandle(blocks.back().get());
  blocks.resize(39);
  CHECK(open_files() > before);
  blocks.clear();
  check_equal(open_files(), before, "descriptors");
  // Its descriptor is no memory now.
  auto const text = text_of_error<c10::Error>([&] { ours().getIpcDevPtr(last.handle); });
  CHECK(text.find("descriptor") != std::string::npos);
  // The same address is exported anew.
  auto const again = ours().allocate(4 * kib);
  C10_CUDA_CHECK(cudaMemset(again.get(), 'n', 4 * kib));
  auto const here = ours().getIpcDevPtr(ours().shareIpcHandle(again.get()).handle);
  CHECK(contents(here.get(), 4 * kib) == std::string(4 * kib, 'n'));
}

TEST(a_restore_closes_the_descriptors_of_blocks_that_it_frees)
{
  auto const id = c10::MempoolId_t{0, 700000};
  auto& all     = ours(exportable);
  all.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
  auto kept        = all.allocate(4 * kib);
  auto const state = all.getCheckpointState(0, id);
  auto freed       = all.allocate(7 * mib);
  all.endAllocateToPool(0, id);
  auto const text = all.shareIpcHandle(kept.get()).handle;
  all.shareIpcHandle(freed.get());
  auto const before = open_files();
  auto delta = all.setCheckpointPoolState(0, state);
  freed.release_context();
  kept.release_context();
  CHECK(open_files() < before);
  // A receiver of the one that stays allocated may come later.
  CHECK(all.shareIpcHandle(delta.dataptrs_allocd.at(0).get()).handle == text);
  delta.dataptrs_allocd.clear();
  all.releasePool(0, id);
}

TEST(texts_of_no_sender_are_refused)
{
  auto const block  = ours(exportable).allocate(mib);
  auto const shared = ours().shareIpcHandle(block.get());
  auto const files  = open_files();
  auto const refuse = [&](std::string const& text) {
    return text_of_error<c10::Error>([&] { ours().getIpcDevPtr(text); });
  };
  CHECK(refuse(shared.handle.substr(0, shared.handle.size() - 1)).find("no sender") !=
        std::string::npos);
  auto empty = shared.handle.substr(0, 16);
  std::fill_n(empty.begin() + 8, 8, '\0');
  CHECK(refuse(empty).find("no sender") != std::string::npos);
  CHECK(refuse(shared.handle.substr(0, 5)).find("cudaMalloc") != std::string::npos);
  auto of_nobody = shared.handle;
  // No process has this number.
  std::fill_n(of_nobody.begin() + 4, 4, '\x7f');
  CHECK(refuse(of_nobody).find("process 2139062143") != std::string::npos);
  auto larger = shared.handle;
  larger[16 + 24 + 3] = 1;  // 16 MiB more in the handle
  CHECK(refuse(larger).find("piece 0 of 1") != std::string::npos);
  check_equal(open_files(), files, "descriptors");
}

TEST(memory_that_cannot_be_shared_is_an_error_that_names_what_can)
{
  is_refused       = true;
  auto const block = ours("pool(virtual, max=64MiB)").allocate(mib);
  auto const text  = text_of_error<c10::Error>([&] { ours().shareIpcHandle(block.get()); });
  CHECK(text.find("install(\"pool(virtual(export=posix_fd))\")") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);
}
