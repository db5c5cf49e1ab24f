// The functions of the allocator for memory of other processes: `torch.multiprocessing` calls them.
#include "ipc.hpp"

#include "allocator.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rmm_rs_torch {

namespace {

// Native puts a version and a kind before the runtime's handle, and takes the handle alone, too.
constexpr std::size_t prefix  = 2;
constexpr char of_cuda_malloc = 'c';

/// What is before the pieces of an export.
struct header {
  char kind[4];
  std::int32_t process;
  std::uint64_t pieces;
};
constexpr char of_pieces[4] = {'r', 'm', 'm', '1'};

/// A file descriptor that is closed with this.
class file {
 public:
  explicit file(int number) noexcept : number_{number} {}
  file(file&& other) noexcept : number_{std::exchange(other.number_, -1)} {}
  file(file const&) = delete;
  ~file()
  {
    if (number_ >= 0) { ::close(number_); }
  }
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

/// The pieces of an export, which are released with this.
class pieces {
 public:
  pieces() = default;
  pieces(pieces const&) = delete;
  ~pieces() { engine->rmm_rs_pieces_release(first, count); }

  rmm_rs_piece* first{nullptr};
  std::size_t count{0};
};

/// What maps another process's memory here. Throws if the text is of no sender.
struct received {
  explicit received(std::string const& text)
  {
    if (text.size() < sizeof(header) || std::memcmp(text.data(), of_pieces, sizeof of_pieces) != 0) {
      native = handle_in(text);
      return;
    }
    std::memcpy(&sender, text.data(), sizeof sender);
    auto const bytes = text.size() - sizeof sender;
    TORCH_CHECK(sender.pieces > 0 && bytes % sizeof(rmm_rs_piece) == 0 &&
                  bytes / sizeof(rmm_rs_piece) == sender.pieces,
                "rmm-rs: a handle of ", text.size(), " bytes is of no sender");
    parts.resize(sender.pieces);
    std::memcpy(parts.data(), text.data() + sizeof sender, bytes);
  }

  /// The runtime's handle in the text of a sender. Throws if there is none.
  static std::string handle_in(std::string const& text)
  {
    constexpr auto size = sizeof(cudaIpcMemHandle_t);
    if (text.size() == size) { return text; }
    TORCH_CHECK(text.size() == prefix + size && text[1] == of_cuda_malloc,
                "rmm-rs: the sender's memory is not from cudaMalloc: start it without "
                "expandable_segments");
    return text.substr(prefix);
  }

  std::string native;
  header sender{};
  std::vector<rmm_rs_piece> parts;
};

/// The sender's descriptor `number` as one of this process.
file take(file const& process, int number, std::int32_t id)
{
  file taken{static_cast<int>(::syscall(SYS_pidfd_getfd, process.number(), number, 0))};
  if (taken.number() >= 0) { return taken; }
  auto const code = errno;
  TORCH_CHECK(code != EPERM,
              "rmm-rs: the system does not let this process take memory out of process ", id,
              ", for which it has to be of the same user, with the right to trace it; memory of "
              "cudaMalloc does without: install(\"pool(cuda)\")");
  TORCH_CHECK(false, "rmm-rs: descriptor ", number, " of process ", id,
              ", which has a tensor's memory: ", std::strerror(code));
}

/// The sender's memory, mapped here.
std::shared_ptr<void> map(received found, c10::DeviceIndex device)
{
  auto const id = found.sender.process;
  file const process{static_cast<int>(::syscall(SYS_pidfd_open, id, 0))};
  TORCH_CHECK(process.number() >= 0, "rmm-rs: process ", id, ", which has a tensor's memory: ",
              std::strerror(errno));
  std::vector<file> taken;
  for (auto& piece : found.parts) {
    if (piece.kind != RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR) { continue; }
    taken.push_back(take(process, piece.file, id));
    piece.file = taken.back().number();
  }
  void* pointer            = nullptr;
  rmm_rs_imported* mapping = nullptr;
  check(engine->rmm_rs_import(found.parts.data(), found.parts.size(), device, true, &pointer,
                              &mapping));
  return {pointer, [mapping](void*) { engine->rmm_rs_import_release(mapping); }};
}

std::shared_ptr<void> open_native(std::string const& handle, c10::DeviceIndex device)
{
  cudaIpcMemHandle_t native{};
  std::memcpy(&native, handle.data(), sizeof native);
  void* base = nullptr;
  C10_CUDA_CHECK(cudaIpcOpenMemHandle(&base, native, cudaIpcMemLazyEnablePeerAccess));
  return {base, [device](void* pointer) {
            try {
              c10::cuda::CUDAGuard const guard{device};
              // At the end of the process the runtime may be gone.
              (void)cudaIpcCloseMemHandle(pointer);
            } catch (c10::Error const&) {
              return;
            }
          }};
}

/// Memory of other processes that is open here, by handle and device: the runtime opens it once.
class opened_memory {
 public:
  std::shared_ptr<void> open(c10::DeviceIndex device, std::string const& text)
  {
    received found{text};
    auto const key = std::pair{device, found.parts.empty() ? found.native : text};
    std::lock_guard const lock{mutex_};
    auto& place = open_[key];
    if (auto opened = place.lock(); opened != nullptr) { return opened; }
    c10::cuda::CUDAGuard const guard{device};
    auto opened = found.parts.empty() ? open_native(found.native, device)
                                      : map(std::move(found), device);
    place = opened;
    // The others of which nothing is open.
    std::erase_if(open_, [](auto const& entry) { return entry.second.expired(); });
    return opened;
  }

 private:
  // Held while memory is opened, so that two threads do not open the same.
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, std::string>, std::weak_ptr<void>> open_;
};

}  // namespace

class exported_memory::descriptor : public file {
 public:
  using file::file;
};

exported_memory::shared_descriptor exported_memory::shared(std::uintptr_t start_of_handle, int number)
{
  auto& place = descriptors_[start_of_handle];
  if (auto open = place.lock(); open != nullptr) { return open; }
  // The pieces close theirs.
  auto const open = std::make_shared<descriptor const>(::fcntl(number, F_DUPFD_CLOEXEC, 0));
  TORCH_CHECK(open->number() >= 0, "rmm-rs: a descriptor for a tensor's memory: ",
              std::strerror(errno), ". ulimit -n allows more; blocks of one page share one");
  place = open;
  return open;
}

std::optional<std::string> exported_memory::text_of(void* block, std::size_t bytes)
{
  std::lock_guard const lock{mutex_};
  if (auto const found = blocks_.find(block); found != blocks_.end()) { return found->second.text; }
  pieces made;
  auto const status = engine->rmm_rs_export(block, bytes, &made.first, &made.count);
  if (status == RMM_RS_REFUSED) { return std::nullopt; }
  check(status);
  block_export added;
  header sender{};
  std::memcpy(sender.kind, of_pieces, sizeof of_pieces);
  sender.process = process_;
  sender.pieces  = made.count;
  added.text.assign(reinterpret_cast<char const*>(&sender), sizeof sender);
  auto address = reinterpret_cast<std::uintptr_t>(block);
  for (std::size_t i = 0; i < made.count; ++i) {
    auto piece = made.first[i];
    if (piece.kind == RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR) {
      added.descriptors.push_back(shared(address - piece.offset, piece.file));
      piece.file = added.descriptors.back()->number();
    }
    address += piece.bytes;
    added.text.append(reinterpret_cast<char const*>(&piece), sizeof piece);
  }
  if (!is_used_.load(std::memory_order_relaxed)) {
    // Where the system lets a process trace its descendants alone (Yama), it lets receivers of the
    // same user take descriptors out of this one. It fails where there is no such rule.
    (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  }
  is_used_.store(true, std::memory_order_release);
  return blocks_.emplace(block, std::move(added)).first->second.text;
}

void exported_memory::close(void* block)
{
  // A child of a fork has the parent's tensors, and perhaps a lock that no thread of it holds.
  if (::getpid() != process_) { return; }
  std::lock_guard const lock{mutex_};
  if (blocks_.erase(block) == 0) { return; }
  std::erase_if(descriptors_, [](auto const& entry) { return entry.second.expired(); });
}

c10::cuda::CUDACachingAllocator::ShareableHandle allocator::shareIpcHandle(void* pointer)
{
  rmm_rs_client_block block{};
  block.size = sizeof block;
  check(engine->rmm_rs_client_find(pointer, &block));
  auto const device       = static_cast<c10::DeviceIndex>(block.device);
  auto const note_export  = [&] { sleeper_.note_exported(device, pools_.id_of(device, block.pool)); };
  if (auto text = exported_.text_of(block.pointer, block.requested); text.has_value()) {
    note_export();
    return {static_cast<char*>(pointer) - static_cast<char*>(block.pointer), std::move(*text)};
  }
  std::size_t bytes = 0;
  auto* const base  = static_cast<char*>(getBaseAllocation(pointer, &bytes));
  cudaIpcMemHandle_t handle{};
  auto const code = cudaIpcGetMemHandle(&handle, base);
  if (code != cudaSuccess) {
    // It is the thread's last error, too, which a later check would find.
    (void)cudaGetLastError();
    TORCH_CHECK(false, "rmm-rs: this memory cannot be shared with other processes: ",
                cudaGetErrorString(code), ". Virtual memory that is made for it can: "
                "install(\"pool\") on this device, or install(\"pool(virtual(export=posix_fd))\"); "
                "and memory of cudaMalloc: install(\"pool(cuda)\")");
  }
  note_export();
  return {static_cast<char*>(pointer) - base,
          std::string{reinterpret_cast<char const*>(&handle), sizeof handle}};
}

std::shared_ptr<void> allocator::getIpcDevPtr(std::string text)
{
  // Never destroyed, as the tensors in it.
  static auto* const opened = new opened_memory{};
  c10::DeviceIndex device   = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return opened->open(device, text);
}

}  // namespace rmm_rs_torch
