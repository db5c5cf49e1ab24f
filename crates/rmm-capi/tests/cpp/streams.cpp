// Streams with an owner, adopted ones, and the policies of raw handles.

#include "check.hpp"

#include <cuda.h>

using rmm_rs::device_resource;
using rmm_rs::stream_policy;

namespace {

/// A stream that the library is not told of.
class raw_stream {
 public:
  raw_stream() { CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS); }
  raw_stream(raw_stream const&) = delete;
  ~raw_stream() { CHECK(cuStreamDestroy_v2(stream_) == CUDA_SUCCESS); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  operator cuda::stream_ref() const { return cuda::stream_ref{stream_}; }

 private:
  CUstream stream_ = nullptr;
};

device_resource pool(stream_policy policy = stream_policy::checked)
{
  return device_resource::pool(device_resource::cuda_resource(), {.policy = policy});
}

void use(device_resource const& resource, cuda::stream_ref stream)
{
  void* const pointer = resource.allocate(stream, 4096);
  CHECK(pointer != nullptr);
  resource.deallocate(stream, pointer, 4096);
}

}  // namespace

TEST(a_stream_has_a_handle_of_its_own)
{
  rmm_rs::stream first;
  rmm_rs::stream const blocking{rmm_rs::stream_kind::blocking};
  CHECK(first.get() != nullptr && first.get() != blocking.get());
  unsigned flags = 77;
  CHECK(cuStreamGetFlags(first.get(), &flags) == CUDA_SUCCESS && flags == CU_STREAM_NON_BLOCKING);
  CHECK(cuStreamGetFlags(blocking.get(), &flags) == CUDA_SUCCESS && flags == CU_STREAM_DEFAULT);
  cudaStream_t const handle = first.get();
  auto second = std::move(first);
  CHECK(!first && first.get() == nullptr && second.get() == handle);
  first = std::move(second);
  CHECK(first.get() == handle);
  use(pool(), first);
}

TEST(memory_freed_on_a_stream_is_reused_on_it)
{
  auto const resource = pool();
  rmm_rs::stream const stream;
  void* const first = resource.allocate(stream, 4096);
  resource.deallocate(stream, first, 4096);
  void* const second = resource.allocate(stream, 4096);
  CHECK(first == second);
  resource.deallocate(stream, second, 4096);
}

TEST(an_adopted_stream_serves_before_and_after_its_release)
{
  auto const resource = pool();
  raw_stream const stream;
  use(resource, stream);
  {
    auto const adopted = rmm_rs::stream::adopt(stream.get());
    CHECK(adopted.get() == stream.get());
    use(resource, stream);
  }
  use(resource, stream);
  auto const unknown = rmm_rs::stream::adopt(stream.get(), rmm_rs::stream_lifetime::unknown);
  CHECK(unknown.get() == stream.get());
  use(resource, stream);
}

TEST(a_kept_stream_serves_until_it_is_forgotten)
{
  auto const resource = pool(stream_policy::kept);
  {
    raw_stream const stream;
    use(resource, stream);
    rmm_rs::forget_stream(stream.get());
  }
  auto const checked = pool();
  checked.set_stream_policy(stream_policy::kept);
  raw_stream const stream;
  use(checked, stream);
  rmm_rs::forget_stream(stream.get());
  rmm_rs::forget_stream(stream.get());
}

TEST(handles_of_destroyed_streams_are_reused_safely)
{
  auto const resource = pool();
  for (int i = 0; i < 50; ++i) {
    raw_stream const stream;
    use(resource, stream);
  }
  CHECK(resource.get_pool_statistics().live_bytes == 0);
}

TEST(the_default_streams_need_no_introduction)
{
  auto const resource = pool();
  for (std::uintptr_t handle : {0, 1, 2}) {
    use(resource, cuda::stream_ref{reinterpret_cast<cudaStream_t>(handle)});
  }
}

TEST(a_stream_that_does_not_exist_throws)
{
  alignas(64) static char nothing[256];
  cuda::stream_ref const stream{reinterpret_cast<cudaStream_t>(nothing)};
  THROWS(std::bad_alloc, "", pool().allocate(stream, 64));
}

int main()
{
  CUcontext context = nullptr;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  return check::run_all();
}
