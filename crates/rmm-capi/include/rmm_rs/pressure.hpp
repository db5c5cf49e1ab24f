// A callback of a pool that is about to refuse a request.
#ifndef RMM_RS_PRESSURE_HPP
#define RMM_RS_PRESSURE_HPP

#include "errors.hpp"

#include <atomic>
#include <functional>
#include <utility>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

namespace detail {

/// The callback, which two own: the function that registers it until it returns, and the library
/// until no call of it is left.
struct pressure_context {
  std::function<bool(rmm_rs_pressure const&)> callback;
  std::atomic<int> owners{2};

  static bool call(void* context, rmm_rs_pressure const* pressure) noexcept
  {
    try {
      return static_cast<pressure_context*>(context)->callback(*pressure);
    } catch (...) {
      return false;
    }
  }

  static void release(void* context) noexcept
  {
    auto* const self = static_cast<pressure_context*>(context);
    if (self->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) { delete self; }
  }
};

}  // namespace detail

/// Keeps a callback of basic_resource::on_pressure registered.
class RMM_RS_TYPE pressure_callback {
 public:
  /// Registers a callback with the pool of a handle. The handle stays the caller's.
  pressure_callback(rmm_rs_resource const* pool,
                    std::function<bool(rmm_rs_pressure const&)> callback)
  {
    using detail::pressure_context;
    auto* const context = new pressure_context{std::move(callback)};
    auto const status = rmm_rs_pool_on_pressure(
      pool, &pressure_context::call, context, &pressure_context::release, &handle_);
    // What was not registered has no other owner.
    if (handle_ == nullptr) { context->owners.store(1, std::memory_order_relaxed); }
    pressure_context::release(context);
    detail::check(status);
  }

  pressure_callback(pressure_callback&& other) noexcept
    : handle_{std::exchange(other.handle_, nullptr)}
  {
  }
  pressure_callback& operator=(pressure_callback&& other) noexcept
  {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~pressure_callback() { rmm_rs_pressure_callback_release(handle_); }

 private:
  rmm_rs_pressure_callback* handle_ = nullptr;
};

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_PRESSURE_HPP
