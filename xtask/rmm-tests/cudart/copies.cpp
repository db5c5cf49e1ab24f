// Copies and fills.
#include "default_stream.hpp"

using stand_in::address;
using stand_in::in_context;
using stand_in::record;

namespace {

CUresult copy_on(
  void* to, void const* from, std::size_t bytes, enum cudaMemcpyKind kind, CUstream stream) noexcept
{
  if (bytes == 0) { return CUDA_SUCCESS; }
  switch (kind) {
    case cudaMemcpyHostToDevice: return cuMemcpyHtoDAsync(address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost: return cuMemcpyDtoHAsync(to, address(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoDAsync(address(to), address(from), bytes, stream);
    // The driver finds out from the addresses.
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return cuMemcpyAsync(address(to), address(from), bytes, stream);
  }
  return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
}

/// One copy whose direction the addresses tell. Its attributes may allow the source to be read out
/// of stream order, and none of them forbids to read it in order; but a source that ends with the
/// call has to be read by then.
CUresult copy_with(void* to,
                   void const* from,
                   std::size_t bytes,
                   cudaMemcpyAttributes const& attributes,
                   CUstream stream) noexcept
{
  switch (attributes.srcAccessOrder) {
    case cudaMemcpySrcAccessOrderStream:
    case cudaMemcpySrcAccessOrderAny:
      return copy_on(to, from, bytes, cudaMemcpyDefault, stream);
    case cudaMemcpySrcAccessOrderDuringApiCall: {
      auto const code = copy_on(to, from, bytes, cudaMemcpyDefault, stream);
      return code == CUDA_SUCCESS ? cuStreamSynchronize(stream) : code;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Copies with attributes do not run on the legacy default stream.
bool is_legacy(CUstream stream) noexcept
{
  return stream == nullptr || stream == CU_STREAM_LEGACY;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(
  void* to, void const* from, std::size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
  return in_context([=] { return copy_on(to, from, bytes, kind, meant(stream)); });
}

cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, enum cudaMemcpyKind kind)
{
  return in_context([=] {
    auto const stream = meant(nullptr);
    auto const code   = copy_on(to, from, bytes, kind, stream);
    return code == CUDA_SUCCESS ? cuStreamSynchronize(stream) : code;
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream)
{
  if (bytes == 0) { return cudaSuccess; }
  auto const byte = static_cast<unsigned char>(value);
  return in_context(
    [=] { return cuMemsetD8Async(address(pointer), byte, bytes, meant(stream)); });
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes)
{
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}

cudaError_t cudaMemcpyWithAttributesAsync(void* to,
                                          void const* from,
                                          std::size_t bytes,
                                          cudaMemcpyAttributes* attributes,
                                          cudaStream_t stream)
{
  if (attributes == nullptr || is_legacy(meant(stream))) { return record(cudaErrorInvalidValue); }
  return in_context([=] { return copy_with(to, from, bytes, *attributes, meant(stream)); });
}

cudaError_t cudaMemcpyBatchAsync(void* const* to,
                                 void const* const* from,
                                 std::size_t const* bytes,
                                 std::size_t count,
                                 cudaMemcpyAttributes* attributes,
                                 std::size_t* first_of,
                                 std::size_t attribute_count,
                                 cudaStream_t stream)
{
  // `first_of[i]` is the first copy that attributes[i] are for: it rises from 0.
  bool valid = count != 0 && attribute_count != 0 && attribute_count <= count &&
               !is_legacy(meant(stream)) && first_of[0] == 0 &&
               first_of[attribute_count - 1] < count;
  for (std::size_t i = 1; valid && i < attribute_count; ++i) {
    valid = first_of[i - 1] < first_of[i];
  }
  if (!valid) { return record(cudaErrorInvalidValue); }
  return in_context([=] {
    std::size_t group = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (group + 1 < attribute_count && first_of[group + 1] == i) { ++group; }
      auto const code = copy_with(to[i], from[i], bytes[i], attributes[group], meant(stream));
      if (code != CUDA_SUCCESS) { return code; }
    }
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
