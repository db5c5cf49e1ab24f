// How far requests for memory may go before they are refused.
#ifndef RMM_RS_EFFORT_HPP
#define RMM_RS_EFFORT_HPP

#include "errors.hpp"

#include <chrono>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// Limits the requests of the calling thread, of every resource, while it exists. It ends on the
/// thread that made it, before those made earlier.
class RMM_RS_TYPE effort_scope {
 public:
  /// No wait of the calling thread for the device or for other threads.
  [[nodiscard]] static effort_scope no_host_wait()
  {
    return effort_scope{RMM_RS_EFFORT_NO_HOST_WAIT, 0};
  }

  /// No growth of pools.
  [[nodiscard]] static effort_scope no_growth() { return effort_scope{RMM_RS_EFFORT_NO_GROWTH, 0}; }

  /// No step that begins after this time, with which a wait ends.
  explicit effort_scope(std::chrono::nanoseconds time)
    : effort_scope{RMM_RS_EFFORT_FOR,
                   time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count())}
  {
  }

  effort_scope(effort_scope const&)            = delete;
  effort_scope& operator=(effort_scope const&) = delete;

  ~effort_scope() { (void)rmm_rs_effort_pop(); }

 private:
  effort_scope(std::uint32_t effort, std::uint64_t nanoseconds)
  {
    detail::check(rmm_rs_effort_push(effort, nanoseconds));
  }
};

}  // namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif
