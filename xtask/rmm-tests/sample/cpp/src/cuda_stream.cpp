// A stream that is destroyed with its owner.
#include <rmm/cuda_stream.hpp>

#include <small_rmm/try.hpp>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

RMM_NAMESPACE_BEGIN

namespace {

cudaStream_t* make(cuda_stream::flags flags)
{
  auto handle = std::make_unique<cudaStream_t>();
  small_rmm::check(cudaStreamCreateWithFlags(handle.get(), static_cast<unsigned>(flags)));
  return handle.release();
}

void destroy(cudaStream_t* handle)
{
  cudaStreamDestroy(*handle);
  delete handle;
}

}  // namespace

cuda_stream::cuda_stream(flags flags) : stream_{make(flags), destroy} {}
bool cuda_stream::is_valid() const { return stream_ != nullptr; }
cudaStream_t cuda_stream::value() const { return *stream_; }
cuda_stream::operator cudaStream_t() const noexcept { return *stream_; }
cuda_stream::operator cuda::stream_ref() const noexcept { return cuda::stream_ref{*stream_}; }
void cuda_stream::synchronize() const { small_rmm::check(cudaStreamSynchronize(*stream_)); }
void cuda_stream::synchronize_no_throw() const noexcept { cudaStreamSynchronize(*stream_); }

RMM_NAMESPACE_END
