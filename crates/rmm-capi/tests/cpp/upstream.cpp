// C++ resources below resources of this library: exceptions, lifetime, equality, order.

#include "check.hpp"

#include <map>
#include <memory>
#include <mutex>

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;
using rmm_rs::device_resource;
using rmm_rs::make_upstream;
using any = cuda::mr::any_resource<device_accessible>;

namespace {

/// What happens to a resource of these tests.
struct record {
  std::mutex lock;
  std::size_t live = 0;
  int alive = 0;
  int ordered = 0;
  int synchronous = 0;
  cudaStream_t last = nullptr;
  void (*fails)() = nullptr;
};

/// A C++ resource over another, with properties. It counts its copies.
template <class... Properties>
class counted {
 public:
  counted(std::shared_ptr<record> shared, device_resource upstream)
    : record_{std::move(shared)}, upstream_{std::move(upstream)}
  {
    add(1);
  }
  counted(counted const& other) : record_{other.record_}, upstream_{other.upstream_} { add(1); }
  counted& operator=(counted const&) = default;
  ~counted() { add(-1); }

  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
  {
    fail_or_count(bytes);
    record_->ordered += 1;
    record_->last = stream.get();
    return upstream_.allocate(stream, bytes, alignment);
  }
  void deallocate(
    cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    record_->live -= bytes;
    upstream_.deallocate(stream, pointer, bytes, alignment);
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment)
  {
    fail_or_count(bytes);
    record_->synchronous += 1;
    return upstream_.allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    record_->live -= bytes;
    upstream_.deallocate_sync(pointer, bytes, alignment);
  }
  friend bool operator==(counted const& one, counted const& other)
  {
    return one.record_ == other.record_;
  }
  friend bool operator!=(counted const& one, counted const& other) { return !(one == other); }

  template <class Property>
    requires(std::is_same_v<Property, Properties> || ...)
  friend void get_property(counted const&, Property) noexcept
  {
  }

 private:
  void add(int number)
  {
    std::lock_guard<std::mutex> const guard{record_->lock};
    record_->alive += number;
  }
  void fail_or_count(std::size_t bytes)
  {
    if (record_->fails != nullptr) { record_->fails(); }
    record_->live += bytes;
  }

  std::shared_ptr<record> record_;
  device_resource upstream_;
};

using device_counted = counted<device_accessible>;

std::pair<std::shared_ptr<record>, any> made()
{
  auto shared = std::make_shared<record>();
  return {shared, any{device_counted{shared, device_resource::cuda_resource()}}};
}

}  // namespace

TEST(a_pool_stands_on_a_cpp_resource)
{
  auto [shared, upstream] = made();
  {
    auto const pool = device_resource::pool(make_upstream(upstream), {.initial_size = 2 * MiB});
    CHECK(shared->live >= 2 * MiB);
    void* const pointer = pool.allocate(legacy, 100);
    CHECK(pointer != nullptr);
    pool.deallocate(legacy, pointer, 100);
  }
  CHECK(shared->live == 0);
}

TEST(an_upstream_is_destroyed_with_its_last_user)
{
  auto [shared, upstream] = made();
  int const before = shared->alive;
  {
    auto const first = make_upstream(upstream);
    auto const second = first;
    any const erased{device_resource::statistics(second)};
    CHECK(shared->alive == before + 1);
  }
  CHECK(shared->alive == before);
}

TEST(classes_and_references_need_no_type_erasure_of_the_caller)
{
  auto const shared = std::make_shared<record>();
  device_counted direct{shared, device_resource::cuda_resource()};
  rmm_rs::device_resource const from_class = make_upstream(direct);
  auto const from_reference = make_upstream(cuda::mr::resource_ref<device_accessible>{direct});
  CHECK(from_class == from_reference);
  int const before = shared->alive;
  {
    auto const copy = make_upstream(cuda::mr::resource_ref<device_accessible>{direct});
    CHECK(shared->alive == before + 1);
  }
  CHECK(shared->alive == before);
  auto const pool = device_resource::pool(from_class);
  pool.deallocate(legacy, pool.allocate(legacy, 64), 64);
  CHECK(shared->synchronous + shared->ordered > 0);
}

TEST(the_stream_arrives)
{
  auto [shared, upstream] = made();
  auto const resource = make_upstream(upstream);
  rmm_rs::stream const stream;
  void* pointer = resource.allocate(stream, 64);
  CHECK(shared->last == stream.get() && shared->ordered == 1);
  resource.deallocate(stream, pointer, 64);
  pointer = resource.allocate_sync(64);
  CHECK(shared->synchronous == 1);
  resource.deallocate_sync(pointer, 64);
  CHECK(shared->live == 0);
}

TEST(upstreams_are_equal_as_their_resources_are)
{
  auto [shared, upstream] = made();
  auto [other_shared, other] = made();
  CHECK(make_upstream(upstream) == make_upstream(upstream));
  CHECK(make_upstream(upstream) != make_upstream(other));
  CHECK(make_upstream(upstream) != device_resource::cuda_resource());
}

#if CCCL_VERSION >= 3004000
TEST(a_resource_of_this_library_becomes_itself)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  auto const again = make_upstream(any{pool});
  CHECK(again.get() == pool.get());
  auto const pinned = rmm_rs::host_device_resource::pinned_resource();
  CHECK(make_upstream(any{pinned}).get() == pinned.get());
  CHECK(make_upstream(pinned).get() == pinned.get());
}
#endif

TEST(properties_pass)
{
  auto shared = std::make_shared<record>();
  using both = counted<device_accessible, host_accessible>;
  cuda::mr::any_resource<device_accessible, host_accessible> const upstream{
    both{shared, device_resource::managed_resource()}};
  rmm_rs::host_device_resource const resource = make_upstream(upstream);
  CHECK(rmm_rs_resource_properties(resource.get()) ==
        (RMM_RS_DEVICE_ACCESSIBLE | RMM_RS_HOST_ACCESSIBLE));
  auto const pool = rmm_rs::host_device_resource::pool(resource);
  auto* const text = static_cast<char*>(pool.allocate_sync(16));
  text[15] = 'x';
  pool.deallocate_sync(text, 16);
}

TEST(a_resource_without_stream_order_is_synchronized)
{
  auto [shared, upstream] = made();
  auto const resource =
    make_upstream(cuda::mr::any_synchronous_resource<device_accessible>{upstream});
  rmm_rs::stream const stream;
  void* const pointer = resource.allocate(stream, 64);
  resource.deallocate(stream, pointer, 64);
  CHECK(shared->ordered == 0 && shared->synchronous == 1 && shared->live == 0);
}

TEST(exceptions_come_out_on_the_other_side)
{
  auto [shared, upstream] = made();
  auto const resource = device_resource::statistics(make_upstream(upstream));
  auto const pool = device_resource::pool(resource);
  auto const allocates = [&] {
    resource.deallocate(legacy, resource.allocate(legacy, 64), 64);
    resource.deallocate_sync(resource.allocate_sync(64), 64);
  };

  shared->fails = [] { throw rmm_rs::out_of_memory{"nothing is left"}; };
  THROWS(rmm_rs::out_of_memory, "nothing is left", allocates(), 0);
  THROWS(rmm_rs::out_of_memory, "upstream is out of memory", pool.allocate(legacy, 64));
  shared->fails = [] { throw rmm_rs::bad_alloc{"broken"}; };
  THROWS(rmm_rs::bad_alloc, "broken", allocates(), 0);
  shared->fails = [] { throw std::bad_alloc{}; };
  THROWS(rmm_rs::bad_alloc, "bad_alloc", allocates(), 0);
  shared->fails = [] { throw std::invalid_argument{"not this one"}; };
  THROWS(rmm_rs::invalid_argument, "not this one", allocates(), 0);
  THROWS(rmm_rs::invalid_argument, "not this one", pool.allocate(legacy, 64));
  shared->fails = [] { throw rmm_rs::cuda_error{"the bus fell off"}; };
  THROWS(std::bad_alloc, "the bus fell off", allocates(), 0);
  shared->fails = [] { throw std::logic_error{"no such thing"}; };
  THROWS(std::bad_alloc, "no such thing", allocates(), 0);
  shared->fails = [] { throw std::runtime_error{"it rained"}; };
  THROWS(std::bad_alloc, "it rained", allocates(), 0);
  shared->fails = [] { throw 42; };
  THROWS(std::bad_alloc, "no std::exception", allocates(), 0);

  shared->fails = nullptr;
  allocates();
}

TEST(what_is_no_lack_of_memory_is_no_out_of_memory)
{
  auto [shared, upstream] = made();
  shared->fails = [] { throw std::runtime_error{"it rained"}; };
  auto const resource = make_upstream(upstream);
  try {
    (void)resource.allocate(legacy, 64);
    CHECK(!"it throws");
  } catch (rmm_rs::out_of_memory const&) {
    CHECK(!"it did not run out of memory");
  } catch (std::bad_alloc const&) {
  }
}

TEST(a_failing_upstream_makes_a_pool_shrink_its_request_not_throw)
{
  static record* watched = nullptr;
  auto [shared, upstream] = made();
  watched = shared.get();
  // Large requests fail, as near the end of the device's memory.
  auto const resource = device_resource::limiting(make_upstream(upstream), 3 * MiB);
  auto const pool = device_resource::pool(resource);
  void* const pointer = pool.allocate(legacy, MiB);
  CHECK(pointer != nullptr);
  pool.deallocate(legacy, pointer, MiB);
  CHECK(watched->live <= 3 * MiB);
}

TEST(cpp_and_rust_resources_alternate)
{
  auto [shared, upstream] = made();
  auto const pool = device_resource::pool(make_upstream(upstream));
  auto const outer = std::make_shared<record>();
  auto const stack =
    device_resource::statistics(make_upstream(any{device_counted{outer, pool}}));
  any erased{stack};
  void* const pointer = erased.allocate(legacy, 1000, 256);
  CHECK(outer->live == 1000 && stack.get_statistics().current_bytes == 1000);
  CHECK(pool.get_pool_statistics().live_bytes >= 1000);
  erased.deallocate(legacy, pointer, 1000, 256);
  CHECK(outer->live == 0 && pool.get_pool_statistics().live_bytes == 0);
}

int main() { return check::run_all(); }
