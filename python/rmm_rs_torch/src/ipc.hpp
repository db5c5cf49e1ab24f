// Memory that other processes map.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace rmm_rs_torch {

/// Blocks of virtual memory of this process that others may map, with the descriptors by which they
/// do. Blocks in one handle of the driver's have one descriptor. It is open as long as such a block
/// is allocated: a receiver takes it out of this process whenever it likes.
class exported_memory {
 public:
  /// What a receiver maps the block by. None if its memory is not virtual, or was not made for it.
  std::optional<std::string> text_of(void* block, std::size_t bytes);

  /// The block is freed now. A load of one flag while nothing was exported.
  void forget(void* block)
  {
    if (is_used_.load(std::memory_order_acquire)) { close(block); }
  }

 private:
  class descriptor;
  using shared_descriptor = std::shared_ptr<descriptor const>;
  struct block_export {
    std::string text;
    std::vector<shared_descriptor> descriptors;
  };

  void close(void* block);
  /// The descriptor of the handle that begins at an address: the one that is open, else this one.
  shared_descriptor shared(std::uintptr_t start_of_handle, int file);

  std::int32_t const process_{::getpid()};
  std::atomic<bool> is_used_{false};
  std::mutex mutex_;
  std::map<void*, block_export> blocks_;
  // Expired ones go with the block that had them last.
  std::map<std::uintptr_t, std::weak_ptr<descriptor const>> descriptors_;
};

}  // namespace rmm_rs_torch
