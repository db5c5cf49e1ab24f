// The functions of the package `rmm_rs`, and their failures as exceptions of PyTorch's.
#pragma once

#include <rmm_rs_python.h>

#include <string>
#include <utility>

namespace rmm_rs_torch {

/// The C interface of rmm-rs. Null until the module is installed; then it stays.
inline rmm_rs_python_table const* engine = nullptr;

/// The text of the calling thread's last failed call.
std::string last_error_message();

/// Throws `c10::Error` with that text if the status is a failure.
void check(rmm_rs_status status);

/// A counted reference to a resource, or none.
class resource {
 public:
  resource() = default;
  /// Takes over a reference.
  explicit resource(rmm_rs_resource const* owned) noexcept : handle_{owned} {}
  resource(resource&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
  resource(resource const& other) noexcept : handle_{other.handle_}
  {
    if (handle_ != nullptr) { engine->rmm_rs_resource_retain(handle_); }
  }
  resource& operator=(resource other) noexcept
  {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~resource()
  {
    if (handle_ != nullptr) { engine->rmm_rs_resource_release(handle_); }
  }

  [[nodiscard]] rmm_rs_resource const* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  rmm_rs_resource const* handle_{nullptr};
};

}  // namespace rmm_rs_torch
