// Lets the program `rmm watch PID` show what this process holds.
#ifndef RMM_RS_WATCH_HPP
#define RMM_RS_WATCH_HPP

#include "resource.hpp"

#include <string>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// Opens the socket that `rmm watch` reads, until the process ends or `end_watching` is called. Only
/// this user and root can use it. Nothing happens if it is open. Throws logic_error if it cannot be
/// opened, and elsewhere than on Linux.
inline void watch() { detail::check(rmm_rs_watch()); }

/// Closes the socket, if it is open.
inline void end_watching() noexcept { rmm_rs_end_watching(); }

/// Has `rmm watch` show the pools of a resource and of those under it by this name, as long as they
/// exist: it keeps none alive, and opens no socket. A name that is taken goes to this resource.
template <class... Properties>
void watch_resource(std::string const& name, basic_resource<Properties...> const& resource)
{
  detail::check(rmm_rs_watch_resource(name.c_str(), resource.get()));
}

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_WATCH_HPP
