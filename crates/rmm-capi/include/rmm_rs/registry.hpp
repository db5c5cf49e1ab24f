// The resource of each device, in this library's own map. What RMM and libcudf take by default is
// in RMM's: rmm::mr::set_per_device_resource.
#ifndef RMM_RS_REGISTRY_HPP
#define RMM_RS_REGISTRY_HPP

#include "resource.hpp"

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// The resource of a device: the one that was set, or one over cudaMalloc.
[[nodiscard]] inline device_resource get_per_device_resource(int device)
{
  rmm_rs_resource const* handle = nullptr;
  detail::check(rmm_rs_get_per_device_resource(device, &handle));
  return device_resource{handle};
}

/// Sets the resource of a device, and returns the one before.
inline device_resource set_per_device_resource(int device, device_resource const& resource)
{
  rmm_rs_resource const* previous = nullptr;
  detail::check(rmm_rs_set_per_device_resource(device, resource.get(), &previous));
  return device_resource{previous};
}

/// Sets the resource of a device to the first one, over cudaMalloc.
inline void reset_per_device_resource(int device)
{
  detail::check(rmm_rs_reset_per_device_resource(device));
}

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_REGISTRY_HPP
