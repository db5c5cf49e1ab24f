// The memory resource: one class template over a handle of C.
#ifndef RMM_RS_RESOURCE_HPP
#define RMM_RS_RESOURCE_HPP

#include "callbacks.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "pressure.hpp"

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

template <class... Properties>
class basic_resource;

/// Memory that the device may use. It goes wherever RMM and libcudf take a resource.
using device_resource = basic_resource<::cuda::mr::device_accessible>;
/// Memory that the host and the device may use: pinned and managed memory.
using host_device_resource =
  basic_resource<::cuda::mr::device_accessible, ::cuda::mr::host_accessible>;
/// Memory that the host may use, and the device perhaps not.
using host_resource = basic_resource<::cuda::mr::host_accessible>;

/// The resource that another one is made over, for the time of the call. A null one is refused.
class upstream_ref {
 public:
  template <class... Properties>
  upstream_ref(basic_resource<Properties...> const& resource) noexcept : handle_{resource.get()}
  {
  }
  [[nodiscard]] rmm_rs_resource const* get() const noexcept { return handle_; }

 private:
  rmm_rs_resource const* handle_;
};

/// A bin of basic_resource::binning: the largest request that it serves, and what serves it; blocks
/// of that size, from the upstream, without a resource. As the arguments of
/// rmm::mr::binning_memory_resource::add_bin.
struct bin {
  std::uint64_t allocation_size;
  std::optional<upstream_ref> resource{};
};

namespace detail {

/// The bit of a property in C.
template <class Property>
inline constexpr std::uint32_t bit = 0;
template <>
inline constexpr std::uint32_t bit<::cuda::mr::device_accessible> = RMM_RS_DEVICE_ACCESSIBLE;
template <>
inline constexpr std::uint32_t bit<::cuda::mr::host_accessible> = RMM_RS_HOST_ACCESSIBLE;

template <class Property, class... Properties>
inline constexpr bool is_one_of = (std::is_same_v<Property, Properties> || ...);

}  // namespace detail

/// A memory resource of CCCL's concept, `cuda::mr::resource_with<Properties...>`.
///
/// Properties are cuda::mr::device_accessible, cuda::mr::host_accessible or both, and are checked
/// against the resource's own: a function here that makes a resource throws invalid_argument if it
/// lacks one. A resource with more properties converts to one with fewer.
template <class... Properties>
class RMM_RS_TYPE basic_resource {
  static_assert(sizeof...(Properties) > 0, "a resource needs a property");
  static_assert(((detail::bit<Properties> != 0) && ...), "device_accessible, host_accessible");

 public:
  /// The properties, for CCCL's containers.
  using default_queries = ::cuda::mr::properties_list<Properties...>;
  static constexpr std::size_t default_alignment = ::cuda::mr::default_cuda_malloc_alignment;

  /// Takes over a reference that a C function returned, also if this throws. Null makes a null
  /// object. It asks for the resource's properties, which are none once the process has begun to
  /// exit: a destructor of static storage must not adopt.
  explicit basic_resource(rmm_rs_resource const* owned) : handle_{owned}
  {
    constexpr auto wanted = (detail::bit<Properties> | ...);
    if (owned != nullptr && (rmm_rs_resource_properties(owned) & wanted) != wanted) {
      rmm_rs_resource_release(std::exchange(handle_, nullptr));
      throw invalid_argument{"the resource's memory is not accessible from where its type says"};
    }
  }

  basic_resource(basic_resource const& other) noexcept
    : handle_{rmm_rs_resource_retain(other.handle_)}
  {
  }
  basic_resource(basic_resource&& other) noexcept
    : handle_{std::exchange(other.handle_, nullptr)}
  {
  }
  basic_resource& operator=(basic_resource other) noexcept
  {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~basic_resource()
  {
    if (handle_ != nullptr) { rmm_rs_resource_release(handle_); }
  }

  /// From a resource with more properties.
  template <class... Others>
    requires(!std::is_same_v<basic_resource, basic_resource<Others...>> &&
             (detail::is_one_of<Properties, Others...> && ...))
  basic_resource(basic_resource<Others...> const& other) noexcept
    : handle_{rmm_rs_resource_retain(other.get())}
  {
  }

  // Base resources

  /// cudaMalloc. As rmm::mr::cuda_memory_resource.
  [[nodiscard]] static basic_resource cuda_resource() { return made(&rmm_rs_cuda_resource_new); }

  /// A pool of the driver, cudaMallocAsync. As rmm::mr::cuda_async_memory_resource.
  [[nodiscard]] static basic_resource async_resource(async_options const& options = {})
  {
    rmm_rs_async_options raw{};
    raw.size = sizeof(raw);
    raw.initial_size = options.initial_size;
    raw.maximum_size = options.maximum_size;
    raw.release_threshold = options.release_threshold;
    raw.export_handle_types = static_cast<std::uint32_t>(options.export_handle_type);
    raw.flags = RMM_RS_ASYNC_RELEASE_ABOVE;
    return made(&rmm_rs_async_resource_new_with_options, &raw);
  }

  /// A pool of the driver that belongs to the caller and outlives the resource and its memory; null
  /// is the current device's default pool. As rmm::mr::cuda_async_view_memory_resource.
  [[nodiscard]] static basic_resource async_view_resource(cudaMemPool_t pool)
  {
    return made(&rmm_rs_async_view_resource_new, static_cast<void*>(pool));
  }

  /// The driver's pool of managed memory. As rmm::mr::cuda_async_managed_memory_resource.
  [[nodiscard]] static basic_resource async_managed_resource()
  {
    return made(&rmm_rs_async_managed_resource_new);
  }

  /// The driver's pool of pinned host memory.
  [[nodiscard]] static basic_resource async_pinned_resource()
  {
    return made(&rmm_rs_async_pinned_resource_new);
  }

  /// cudaMallocManaged. As rmm::mr::managed_memory_resource.
  [[nodiscard]] static basic_resource managed_resource()
  {
    return made(&rmm_rs_managed_resource_new);
  }

  /// cudaHostAlloc. As rmm::mr::pinned_host_memory_resource.
  [[nodiscard]] static basic_resource pinned_resource()
  {
    return made(&rmm_rs_pinned_resource_new);
  }

  /// Pinned memory that comes up fast: `threads` threads touch its pages in parallel on a NUMA node,
  /// a number or RMM_RS_NUMA_NODE_*, and the driver registers them. 0 threads are the default.
  [[nodiscard]] static basic_resource registered_resource(
    std::uint32_t threads = 0, std::int32_t numa_node = RMM_RS_NUMA_NODE_OF_DEVICE)
  {
    return made(&rmm_rs_registered_resource_new, threads, numa_node);
  }

  /// The system's memory, on devices that access pageable memory. As
  /// rmm::mr::system_memory_resource.
  [[nodiscard]] static basic_resource system_resource()
  {
    return made(&rmm_rs_system_resource_new);
  }

  /// The system's memory, leaving `headroom` bytes of the device free.
  /// As rmm::mr::sam_headroom_memory_resource.
  [[nodiscard]] static basic_resource sam_headroom_resource(std::uint64_t headroom)
  {
    return made(&rmm_rs_sam_headroom_resource_new, headroom);
  }

  /// Pageable host memory, which the device cannot use: of host_resource only.
  [[nodiscard]] static basic_resource host_resource() { return made(&rmm_rs_host_resource_new); }

  /// The driver's virtual memory, for a pool to stand on: it grows in place and returns single
  /// pages.
  [[nodiscard]] static basic_resource virtual_resource()
  {
    return made(&rmm_rs_virtual_resource_new);
  }

  /// The same with memory of the host on a NUMA node, a number or RMM_RS_NUMA_NODE_OF_DEVICE, which
  /// devices and the host use by the same addresses; `export_kinds` are bits of RMM_RS_EXPORT_*.
  [[nodiscard]] static basic_resource host_virtual_resource(
    std::int32_t numa_node = RMM_RS_NUMA_NODE_OF_DEVICE, std::uint32_t export_kinds = 0)
  {
    return made(&rmm_rs_host_virtual_resource_new, numa_node, export_kinds);
  }

  /// A stack as text, such as "statistics(pool(cuda, max=8GiB))".
  [[nodiscard]] static basic_resource from_spec(std::string const& spec)
  {
    return made(&rmm_rs_resource_from_spec, spec.c_str());
  }

  /// A resource of C functions. make_upstream makes them of a C++ resource.
  [[nodiscard]] static basic_resource from_callbacks(rmm_rs_callbacks const& callbacks)
  {
    return made(&rmm_rs_resource_from_callbacks, &callbacks);
  }

  // Suballocators

  /// The pool to begin with: over virtual memory where the current device has it, and over
  /// cudaMalloc elsewhere.
  [[nodiscard]] static basic_resource default_pool() { return made(&rmm_rs_default_pool_new); }

  /// A stream-ordered pool, which gives each stream its own free memory first and takes that of
  /// another stream in the order of events. As rmm::mr::pool_memory_resource.
  [[nodiscard]] static basic_resource pool(upstream_ref upstream, pool_options const& options = {})
  {
    rmm_rs_pool_options raw{};
    raw.size = sizeof(raw);
    raw.initial_size = options.initial_size;
    raw.maximum_size = options.maximum_size;
    raw.soft_maximum_size = options.soft_maximum_size;
    raw.preset = static_cast<std::uint32_t>(options.preset);
    raw.stream_policy = static_cast<std::uint32_t>(options.policy);
    options.maximum_budget.set(raw);
    if (options.clear_blocks) { raw.flags |= RMM_RS_POOL_CLEAR_BLOCKS; }
    if (options.for_graphs) { raw.flags |= RMM_RS_POOL_GRAPHS; }
    if (options.release_above) {
      raw.flags |= RMM_RS_POOL_RELEASE_ABOVE;
      raw.release_above = *options.release_above;
    }
    raw.release_after_ms = static_cast<std::uint64_t>(options.release_after.count());
    raw.segment_size     = options.segment_size;
    if (options.single_handle) { raw.flags |= RMM_RS_POOL_SINGLE_HANDLE; }
    if (options.pinned_segments) { raw.flags |= RMM_RS_POOL_PINNED_SEGMENTS; }
    return made(&rmm_rs_pool_new, upstream.get(), &raw);
  }

  /// A pool that does not grow. As rmm::mr::arena_memory_resource.
  [[nodiscard]] static basic_resource arena(upstream_ref upstream,
                                            arena_options const& options = {})
  {
    return made(
      &rmm_rs_arena_new, upstream.get(), options.arena_size, options.dump_log_on_failure);
  }

  /// Blocks of one size; larger requests throw. As rmm::mr::fixed_size_memory_resource.
  [[nodiscard]] static basic_resource fixed_size(upstream_ref upstream,
                                                 fixed_size_options const& options = {})
  {
    return made(&rmm_rs_fixed_size_new,
                upstream.get(),
                options.block_size,
                options.blocks_to_preallocate);
  }

  /// A bin of blocks for each power of two from 2^min_size_exponent to 2^max_size_exponent bytes;
  /// larger requests go to the upstream. As rmm::mr::binning_memory_resource.
  [[nodiscard]] static basic_resource binning(upstream_ref upstream,
                                              std::int32_t min_size_exponent,
                                              std::int32_t max_size_exponent)
  {
    return made(&rmm_rs_binning_new, upstream.get(), min_size_exponent, max_size_exponent);
  }

  /// Bins of any sizes, of blocks from the upstream or of other resources; what fits none goes to the
  /// upstream. As rmm::mr::binning_memory_resource and its add_bin.
  [[nodiscard]] static basic_resource binning(upstream_ref upstream, std::vector<bin> const& bins)
  {
    std::vector<std::uint64_t> sizes;
    std::vector<rmm_rs_resource const*> resources;
    for (auto const& each : bins) {
      if (each.resource && each.resource->get() == nullptr) {
        throw invalid_argument{"the resource of a bin is null"};
      }
      sizes.push_back(each.allocation_size);
      resources.push_back(each.resource ? each.resource->get() : nullptr);
    }
    return made(&rmm_rs_binning_new_with_bins,
                upstream.get(),
                static_cast<std::uint64_t const*>(sizes.data()),
                static_cast<rmm_rs_resource const* const*>(resources.data()),
                sizes.size());
  }

  // Adaptors

  /// Refuses what exceeds `limit` bytes in all, of blocks that count as their size rounded up to
  /// `alignment`. As rmm::mr::limiting_resource_adaptor.
  [[nodiscard]] static basic_resource limiting(upstream_ref upstream,
                                               std::uint64_t limit,
                                               std::size_t alignment = default_alignment)
  {
    return made(&rmm_rs_limiting_new_with_alignment, upstream.get(), limit, alignment);
  }

  /// Aligns requests of `threshold` bytes and more. As rmm::mr::aligned_resource_adaptor.
  [[nodiscard]] static basic_resource aligned(upstream_ref upstream,
                                              std::size_t alignment,
                                              std::size_t threshold = 0)
  {
    return made(&rmm_rs_aligned_new, upstream.get(), alignment, threshold);
  }

  /// Writes each call to `file`, in RMM's format; empty: to the file that the environment variable
  /// RMM_LOG_FILE names. As rmm::mr::logging_resource_adaptor.
  [[nodiscard]] static basic_resource logging(upstream_ref upstream,
                                              std::string const& file = {},
                                              bool auto_flush = false)
  {
    auto const* const name = file.empty() ? nullptr : file.c_str();
    return made(&rmm_rs_logging_new, upstream.get(), name, auto_flush);
  }

  /// The same with columns after RMM's: a sum of RMM_RS_LOG_TAG, RMM_RS_LOG_SITE and
  /// RMM_RS_LOG_DEVICE.
  [[nodiscard]] static basic_resource logging(upstream_ref upstream,
                                              std::string const& file,
                                              bool auto_flush,
                                              std::uint32_t columns)
  {
    auto const* const name = file.empty() ? nullptr : file.c_str();
    return made(&rmm_rs_logging_new_with_columns, upstream.get(), name, auto_flush, columns);
  }

  /// Passes the header and then a line for each call to a function, as it comes, with columns as
  /// above. It may be called on several threads at once, and without a lock; what it throws is
  /// dropped. As rmm::mr::logging_resource_adaptor with a stream or a sink.
  [[nodiscard]] static basic_resource logging(upstream_ref upstream,
                                              std::function<void(char const*)> on_line,
                                              std::uint32_t columns = 0)
  {
    return detail::log_context::made<basic_resource>(
      std::move(on_line), [&](auto function, auto* context, auto release, auto* out) {
        return rmm_rs_logging_new_with_callback(
          upstream.get(), function, context, release, columns, out);
      });
  }

  /// Keeps the last `events` calls (0: 65,536) and what was live before them, with call sites if
  /// `sites`; writes them to the directory `oom_report`, unless it is empty, when memory runs out.
  [[nodiscard]] static basic_resource recorder(upstream_ref upstream,
                                               std::size_t events            = 0,
                                               bool sites                    = false,
                                               std::string const& oom_report = {})
  {
    auto const* const directory = oom_report.empty() ? nullptr : oom_report.c_str();
    return made(&rmm_rs_recorder_new, upstream.get(), events, sites, directory);
  }

  /// Writes what the log of the first logging adaptor in the stack has in its buffer.
  void flush() const { detail::check(rmm_rs_logging_flush(handle_)); }

  /// The first line of that log; empty without one.
  [[nodiscard]] std::string header() const
  {
    return detail::text_of([this](char* buffer, std::size_t capacity) {
      return rmm_rs_logging_header(handle_, buffer, capacity);
    });
  }

  /// Writes what the first recorder in the stack keeps to a file, as a log with all columns.
  void save_recorded(std::string const& file) const
  {
    detail::check(rmm_rs_recorder_save(handle_, file.c_str()));
  }

  /// Counts bytes and allocations. As rmm::mr::statistics_resource_adaptor.
  [[nodiscard]] static basic_resource statistics(upstream_ref upstream)
  {
    return made(&rmm_rs_statistics_new, upstream.get());
  }

  /// Remembers each allocation, with the caller's stack. As rmm::mr::tracking_resource_adaptor.
  [[nodiscard]] static basic_resource tracking(upstream_ref upstream, bool capture_stacks = false)
  {
    return made(&rmm_rs_tracking_new, upstream.get(), capture_stacks);
  }

  /// Calls back with the bytes of a request that failed in one of these ways, and repeats the request
  /// while the callback returns true. It may be called on several threads at once; one that throws
  /// counts as false. As rmm::mr::failure_callback_resource_adaptor.
  [[nodiscard]] static basic_resource failure_callback(upstream_ref upstream,
                                                       std::function<bool(std::size_t)> callback,
                                                       failure_kind kinds =
                                                         failure_kind::out_of_memory)
  {
    return detail::failure_context::made<basic_resource>(
      std::move(callback), [&](auto function, auto* context, auto release, auto* out) {
        return rmm_rs_failure_callback_new_with_kinds(
          upstream.get(), static_cast<std::uint32_t>(kinds), function, context, release, out);
      });
  }

  /// Prefetches managed memory to the current device. As rmm::mr::prefetch_resource_adaptor.
  [[nodiscard]] static basic_resource prefetch(upstream_ref upstream)
  {
    return made(&rmm_rs_prefetch_new, upstream.get());
  }

  /// Calls the upstream from one thread at a time: for resources from make_upstream that are not
  /// safe on threads. As rmm::mr::thread_safe_resource_adaptor.
  [[nodiscard]] static basic_resource thread_safe(upstream_ref upstream)
  {
    return made(&rmm_rs_thread_safe_new, upstream.get());
  }

  /// Asks `second` where `first` is out of memory.
  [[nodiscard]] static basic_resource fallback(upstream_ref first, upstream_ref second)
  {
    return made(&rmm_rs_fallback_new, first.get(), second.get());
  }

  // Allocation

  /// Allocates memory that may be used in the order of the stream. The alignment is a power of two.
  /// Throws out_of_memory, or bad_alloc for what else the driver or the upstream reports, or
  /// invalid_argument.
  [[nodiscard]] void* allocate(::cuda::stream_ref stream,
                               std::size_t bytes,
                               std::size_t alignment = default_alignment) const
  {
    void* pointer = nullptr;
    detail::check(rmm_rs_resource_allocate(handle_, stream.get(), bytes, alignment, &pointer));
    return pointer;
  }

  /// Frees memory in the order of the stream. If it fails, which only a wrong argument can cause,
  /// the memory stays allocated and last_error_message says why. A null pointer is allowed.
  void deallocate(::cuda::stream_ref stream,
                  void* pointer,
                  std::size_t bytes,
                  std::size_t alignment = default_alignment) const noexcept
  {
    (void)rmm_rs_resource_deallocate(handle_, stream.get(), pointer, bytes, alignment);
  }

  /// Allocates memory that may be used at once, on any stream. Throws as allocate does.
  [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                    std::size_t alignment = default_alignment) const
  {
    void* pointer = nullptr;
    detail::check(rmm_rs_resource_allocate_sync(handle_, bytes, alignment, &pointer));
    return pointer;
  }

  /// Frees memory that no work uses any more, as deallocate does.
  void deallocate_sync(void* pointer,
                       std::size_t bytes,
                       std::size_t alignment = default_alignment) const noexcept
  {
    (void)rmm_rs_resource_deallocate_sync(handle_, pointer, bytes, alignment);
  }

  // What a resource knows and does besides

  /// The handle for C functions. The reference stays this object's.
  [[nodiscard]] rmm_rs_resource const* get() const noexcept { return handle_; }

  /// Gives the reference away: the object is null, and the caller releases the handle.
  [[nodiscard]] rmm_rs_resource const* release() noexcept
  {
    return std::exchange(handle_, nullptr);
  }

  /// Whether there is a resource: false after a move.
  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }

  /// Whether memory of one may be freed by the other. Null equals null only.
  [[nodiscard]] friend bool operator==(basic_resource const& one,
                                       basic_resource const& other) noexcept
  {
    return one.handle_ == other.handle_ || rmm_rs_resource_equal(one.handle_, other.handle_);
  }

  /// Tells CCCL the properties.
  template <class Property>
    requires(detail::is_one_of<Property, Properties...>)
  friend constexpr void get_property(basic_resource const&, Property) noexcept
  {
  }

  /// Tells CCCL who may use the memory in fact, also if the type says less: a device_resource over
  /// pinned memory is of the host, too. Unknown for a null object, and once the process exits.
  friend ::cuda::mr::dynamic_accessibility_property::value_type get_property(
    basic_resource const& resource, ::cuda::mr::dynamic_accessibility_property) noexcept
  {
    using accessibility = ::cuda::mr::dynamic_accessibility_property::value_type;
    switch (resource.handle_ == nullptr ? 0 : rmm_rs_resource_properties(resource.handle_)) {
      case RMM_RS_DEVICE_ACCESSIBLE | RMM_RS_HOST_ACCESSIBLE: return accessibility::__host_device;
      case RMM_RS_DEVICE_ACCESSIBLE: return accessibility::__device;
      case RMM_RS_HOST_ACCESSIBLE: return accessibility::__host;
      default: return accessibility::__unknown;
    }
  }

  /// The kind of resource, such as "pool". The text lives as long as the resource.
  [[nodiscard]] char const* name() const noexcept { return rmm_rs_resource_name(handle_); }

  /// The resource and those below it, with sizes and counters, as text.
  [[nodiscard]] std::string describe() const
  {
    return detail::text_of([this](char* buffer, std::size_t capacity) {
      return rmm_rs_resource_describe(handle_, buffer, capacity);
    });
  }

  /// The resource below; a null object if there is none.
  [[nodiscard]] basic_resource upstream() const { return made(&rmm_rs_resource_upstream, handle_); }

  /// Returns unused memory of this resource and those below it, until each has no more than `keep`
  /// bytes reserved, and says how many bytes left the stack. Does not wait for the device. Throws
  /// logic_error if no resource of the stack holds any.
  std::uint64_t trim(std::uint64_t keep = 0) const
  {
    std::uint64_t released = 0;
    detail::check(rmm_rs_resource_trim(handle_, keep, &released));
    return released;
  }

  /// As trim, after a wait of this thread for the work that comes before frees.
  std::uint64_t trim_blocking(std::uint64_t keep = 0) const
  {
    std::uint64_t released = 0;
    detail::check(rmm_rs_resource_trim_blocking(handle_, keep, &released));
    return released;
  }

  /// Grants a device access to all device memory of this resource and of those below it, now and
  /// later: to virtual memory and pools of the driver. Memory of cudaMalloc needs
  /// cudaDeviceEnablePeerAccess instead. Throws if the device is not a peer.
  void grant_access(int device) const
  {
    detail::check(rmm_rs_resource_grant_access(handle_, device));
  }

  // Of the first resource of its kind in the stack; without one they throw

  /// The pool of the driver that cuda_async_memory_resource and its relatives stand on. It ends with
  /// the resource.
  [[nodiscard]] cudaMemPool_t pool_handle() const
  {
    void* pool = nullptr;
    detail::check(rmm_rs_resource_pool_handle(handle_, &pool));
    return static_cast<cudaMemPool_t>(pool);
  }

  /// The bytes that count as allocated in a limiting adaptor.
  [[nodiscard]] std::uint64_t get_allocated_bytes() const
  {
    return number(&rmm_rs_limiting_allocated_bytes);
  }

  /// The limit of a limiting adaptor.
  [[nodiscard]] std::uint64_t get_allocation_limit() const
  {
    return number(&rmm_rs_limiting_allocation_limit);
  }

  /// The bytes of a block of fixed_size.
  [[nodiscard]] std::uint64_t get_block_size() const
  {
    return number(&rmm_rs_fixed_size_block_size);
  }

  // Of a pool, or the first one below this resource; without one they throw

  /// Returns all physical memory to the device and keeps the addresses; says how many bytes. Needs a
  /// pool over virtual_resource. The caller promises that no work uses the memory until the pool is
  /// awake. Throws logic_error if work is pending and is not waited for. Host memory for the
  /// contents is pinned at the call, unless `host_memory` has it.
  std::uint64_t pool_sleep(sleep_contents contents = sleep_contents::discard,
                           bool wait_for_work = false,
                           basic_resource<::cuda::mr::host_accessible> const* host_memory =
                             nullptr) const
  {
    rmm_rs_sleep_options raw{};
    raw.size = sizeof(raw);
    raw.contents = static_cast<std::uint32_t>(contents);
    raw.wait_for_work = wait_for_work ? 1 : 0;
    raw.host_memory = host_memory == nullptr ? nullptr : host_memory->get();
    std::uint64_t released = 0;
    detail::check(rmm_rs_pool_sleep(handle_, &raw, &released));
    return released;
  }

  /// Wakes the pool, with the contents that were kept; says how many bytes it mapped, 0 if it was
  /// awake. If it throws, the pool sleeps as before.
  std::uint64_t pool_wake() const { return number(&rmm_rs_pool_wake); }

  [[nodiscard]] bool pool_is_asleep() const noexcept { return rmm_rs_pool_is_asleep(handle_); }

  /// Whether the pool is over memory that it can return while its addresses stay.
  [[nodiscard]] bool pool_can_sleep() const noexcept { return rmm_rs_pool_can_sleep(handle_); }

  /// Copies what a pool that sleeps keeps of a block, or of a part of one, to host memory.
  void pool_read_asleep(void const* pointer, std::size_t bytes, void* out) const
  {
    detail::check(rmm_rs_pool_read_asleep(handle_, pointer, bytes, out));
  }

  /// Sets memory aside: the resource that is returned serves requests from it, which cannot fail up
  /// to its bytes. What remains goes back with the last copy, or by reservation_release.
  [[nodiscard]] basic_resource pool_reserve(std::uint64_t bytes) const
  {
    return made(&rmm_rs_pool_reserve, handle_, bytes);
  }

  /// Bytes that can still be allocated from a reservation.
  [[nodiscard]] std::uint64_t reservation_remaining() const
  {
    return number(&rmm_rs_reservation_remaining);
  }

  /// Returns what remains of a reservation to the pool now.
  std::uint64_t reservation_release() const { return number(&rmm_rs_reservation_release); }

  /// Calls back when a request is about to fail for lack of memory, and tries it again if the
  /// callback returns true, for as long as the object that is returned lives. It may be called on
  /// several threads at once; one that throws counts as false.
  [[nodiscard]] pressure_callback on_pressure(
    std::function<bool(rmm_rs_pressure const&)> callback) const
  {
    return pressure_callback{handle_, std::move(callback)};
  }

  /// Returns what release_above and release_after do not keep; for programs that free nothing for a
  /// while.
  std::uint64_t pool_release_unused() const { return number(&rmm_rs_pool_release_unused); }

  /// Makes memory that was freed on streams under capture, and all of a pool that is for_graphs,
  /// available to any stream once the work before is complete. Every launch of a graph that was
  /// captured with the pool's memory has completed, and none of them is launched again.
  void pool_release_graph_memory() const
  {
    detail::check(rmm_rs_pool_release_graph_memory(handle_));
  }

  [[nodiscard]] pool_statistics get_pool_statistics() const
  {
    return sized<pool_statistics>(&rmm_rs_pool_statistics_get);
  }

  /// Bytes that the pool has taken from upstream.
  [[nodiscard]] std::uint64_t pool_reserved_bytes() const
  {
    return number(&rmm_rs_pool_reserved_bytes);
  }

  /// The most bytes that the pool may reserve; none if there is no limit.
  [[nodiscard]] std::optional<std::uint64_t> pool_maximum_size() const
  {
    auto const size = number(&rmm_rs_pool_maximum_size);
    return size == UINT64_MAX ? std::nullopt : std::optional{size};
  }

  /// As trim, of the pool.
  std::uint64_t pool_trim(std::uint64_t keep = 0) const
  {
    std::uint64_t released = 0;
    detail::check(rmm_rs_pool_trim(handle_, keep, &released));
    return released;
  }

  /// Sets how streams are identified. With stream_policy::kept, a program that destroys a stream
  /// which the resource was used with calls forget_stream first.
  void set_stream_policy(stream_policy policy) const
  {
    detail::check(rmm_rs_pool_stream_policy(handle_, static_cast<std::uint32_t>(policy)));
  }

  // Of a statistics or tracking adaptor, or the first one below this resource; without one they
  // throw

  /// What was counted since the adaptor was made or since the last push.
  [[nodiscard]] rmm_rs::statistics get_statistics() const
  {
    return sized<rmm_rs::statistics>(&rmm_rs_statistics_get);
  }

  /// Begins to count anew, and returns what was counted before.
  rmm_rs::statistics push_statistics() const
  {
    return sized<rmm_rs::statistics>(&rmm_rs_statistics_push);
  }

  /// Ends the last push, adds its counts to those before, and returns it.
  rmm_rs::statistics pop_statistics() const
  {
    return sized<rmm_rs::statistics>(&rmm_rs_statistics_pop);
  }

  /// The bytes that a tracking adaptor has seen allocated and not freed.
  [[nodiscard]] std::uint64_t outstanding_bytes() const
  {
    return number(&rmm_rs_tracking_outstanding_bytes);
  }

  /// All of them by their addresses, with the stacks of their callers if they are captured.
  [[nodiscard]] std::map<void*, allocation_info> get_outstanding_allocations() const
  {
    detail::outstanding all;
    detail::check(rmm_rs_tracking_walk(handle_, &detail::outstanding::add, &all));
    if (all.failed) { std::rethrow_exception(all.failed); }
    return std::move(all.blocks);
  }

  /// A text of their sum, the places that made the most, if stacks are captured, and the 20 largest.
  [[nodiscard]] std::string outstanding_allocations() const
  {
    return detail::text_of([this](char* buffer, std::size_t capacity) {
      return rmm_rs_tracking_outstanding(handle_, buffer, capacity);
    });
  }

 private:
  template <class Make, class... Arguments>
  [[nodiscard]] static basic_resource made(Make make, Arguments... arguments)
  {
    rmm_rs_resource const* handle = nullptr;
    detail::check(make(arguments..., &handle));
    return basic_resource{handle};
  }

  template <class Struct, class Get>
  [[nodiscard]] Struct sized(Get get) const
  {
    Struct filled{};
    filled.size = sizeof(filled);
    detail::check(get(handle_, &filled));
    return filled;
  }

  template <class Get>
  [[nodiscard]] std::uint64_t number(Get get) const
  {
    std::uint64_t value = 0;
    detail::check(get(handle_, &value));
    return value;
  }

  rmm_rs_resource const* handle_;
};

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_RESOURCE_HPP
