// Streams that the library knows.
#ifndef RMM_RS_STREAM_HPP
#define RMM_RS_STREAM_HPP

#include "errors.hpp"

#include <cuda/stream_ref>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// How long a stream lives that stream::adopt makes known.
enum class stream_lifetime : std::uint32_t {
  /// It outlives the object: no driver call per use.
  until_released = RMM_RS_STREAM_UNTIL_RELEASED,
  /// Nothing is promised.
  unknown = RMM_RS_STREAM_UNKNOWN,
};

/// Whether a stream waits for the legacy default stream.
enum class stream_kind : std::uint32_t { blocking = 0, non_blocking = RMM_RS_STREAM_NON_BLOCKING };

/// A stream that the library knows, so that allocation on it needs no driver call to identify it.
/// After a move the object is null, and its handle that of the default stream.
class RMM_RS_TYPE stream {
 public:
  /// Makes a stream in the current context. It is destroyed with this object.
  explicit stream(stream_kind kind = stream_kind::non_blocking)
  {
    detail::check(rmm_rs_stream_new(static_cast<std::uint32_t>(kind), &stream_));
  }

  /// Makes a stream of the caller known. It is the caller who destroys it, after this object.
  [[nodiscard]] static stream adopt(cudaStream_t handle,
                                    stream_lifetime lifetime = stream_lifetime::until_released)
  {
    stream adopted{nullptr};
    auto const raw = static_cast<std::uint32_t>(lifetime);
    detail::check(rmm_rs_stream_adopt(static_cast<void*>(handle), raw, &adopted.stream_));
    return adopted;
  }

  stream(stream const&) = delete;
  stream(stream&& other) noexcept : stream_{std::exchange(other.stream_, nullptr)} {}
  stream& operator=(stream other) noexcept
  {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~stream()
  {
    if (stream_ != nullptr) { rmm_rs_stream_release(stream_); }
  }

  [[nodiscard]] cudaStream_t get() const noexcept
  {
    if (stream_ == nullptr) { return nullptr; }
    return static_cast<cudaStream_t>(rmm_rs_stream_handle(stream_));
  }
  operator ::cuda::stream_ref() const noexcept { return ::cuda::stream_ref{get()}; }
  [[nodiscard]] explicit operator bool() const noexcept { return stream_ != nullptr; }

 private:
  explicit stream(std::nullptr_t) noexcept {}

  rmm_rs_stream* stream_ = nullptr;
};

/// Announces captures while it exists: a pool then asks the driver whether a stream is under capture
/// before it reuses what was freed there, and makes no call that would invalidate a capture. Make it
/// before the capture begins. Several may exist, on several threads.
class RMM_RS_TYPE capture_scope {
 public:
  capture_scope() { detail::check(rmm_rs_capture_announce()); }
  capture_scope(capture_scope const&) = delete;
  capture_scope& operator=(capture_scope const&) = delete;
  ~capture_scope() { (void)rmm_rs_capture_withdraw(); }
};

/// Says that a stream is about to be destroyed, which a resource with stream_policy::kept was used
/// with. One that is not known is no error.
inline void forget_stream(cudaStream_t handle)
{
  detail::check(rmm_rs_stream_forget(static_cast<void*>(handle)));
}

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_STREAM_HPP
