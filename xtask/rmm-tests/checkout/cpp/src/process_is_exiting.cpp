// Whether the process has begun to exit.
#include <rmm/detail/runtime_shutdown.hpp>
#include <rmm/process_is_exiting.hpp>

#include <atomic>
#include <cstdlib>

RMM_NAMESPACE_BEGIN

namespace {
std::atomic<bool> exiting{false};
}

bool process_is_exiting() noexcept { return exiting.load(); }

namespace detail {

void register_process_exit_hook() noexcept
{
  // Once, however often it is called.
  [[maybe_unused]] static int const registered = std::atexit([] { exiting = true; });
}

}  // namespace detail

RMM_NAMESPACE_END
