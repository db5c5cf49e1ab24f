// Functions of the program that a resource calls, as the functions and contexts of C.
#ifndef RMM_RS_CALLBACKS_HPP
#define RMM_RS_CALLBACKS_HPP

#include "errors.hpp"
#include "options.hpp"

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <utility>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {
namespace detail {

/// A function of the program, which two own: the function that makes the resource until it returns,
/// and the resource until it ends.
template <class Function, class Self>
struct owned_context {
  Function function;
  std::atomic<int> owners{2};

  explicit owned_context(Function what) : function{std::move(what)} {}

  static void release(void* context) noexcept
  {
    auto* const self = static_cast<Self*>(context);
    if (self->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) { delete self; }
  }

  /// The resource that `make` stores, given the function, context and release of C.
  template <class Resource, class Make>
  [[nodiscard]] static Resource made(Function function, Make make)
  {
    auto* const context = new Self{std::move(function)};
    rmm_rs_resource const* handle = nullptr;
    auto const status = make(&Self::call, context, &Self::release, &handle);
    // Without a resource there is no other owner any more, whether it has released or not.
    if (handle == nullptr) { context->owners.store(1, std::memory_order_relaxed); }
    release(context);
    check(status);
    return Resource{handle};
  }
};

/// A callback of a failed allocation.
struct failure_context : owned_context<std::function<bool(std::size_t)>, failure_context> {
  using owned_context::owned_context;

  static bool call(void* context, std::size_t bytes) noexcept
  {
    try {
      return static_cast<failure_context*>(context)->function(bytes);
    } catch (...) {
      return false;
    }
  }
};

/// A function that gets the lines of a log.
struct log_context : owned_context<std::function<void(char const*)>, log_context> {
  using owned_context::owned_context;

  static void call(void* context, char const* line) noexcept
  {
    try {
      static_cast<log_context*>(context)->function(line);
    } catch (...) {
      // A line is lost: there is no one to tell.
    }
  }
};

/// What a walk of a tracking adaptor collects.
struct outstanding {
  std::map<void*, allocation_info> blocks{};
  std::exception_ptr failed{};

  static void add(rmm_rs_tracked_block const* block, void* context) noexcept
  {
    auto* const self = static_cast<outstanding*>(context);
    try {
      auto const text = [](char const* text) { return text == nullptr ? "" : text; };
      self->blocks.insert_or_assign(
        block->pointer,
        allocation_info{
          static_cast<std::size_t>(block->bytes), text(block->place), text(block->stack)});
    } catch (...) {
      self->failed = std::current_exception();
    }
  }
};

}  // namespace detail
}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_CALLBACKS_HPP
