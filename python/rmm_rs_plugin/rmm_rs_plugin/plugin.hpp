// What the extension module needs of C++: a resource of RMM's as an upstream, and the reference that RMM's classes keep.
#pragma once

#include <Python.h>

#include <rmm/resource_ref.hpp>
#include <rmm_rs_python.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace rmm_rs_plugin {

using device_resource = rmm_rs::device_resource;
using any_device_resource = ::cuda::mr::any_resource<::cuda::mr::device_accessible>;

/// References to Python objects that threads without the interpreter's lock gave up. The lock is not taken for them: a
/// free can come from under a mutex of RMM's for which a thread that has the lock waits.
///
///     release ──> waiting ──> drain: by the main thread soon (Py_AddPendingCall), or by who has the lock anyway
class given_up {
 public:
  /// Gives up a reference, on any thread.
  static void release(PyObject* object) noexcept
  {
    if (Py_IsInitialized() == 0) { return; }  // the object is gone
    auto* const next = new (std::nothrow) given_up{object, nullptr};
    if (next == nullptr) { return; }
    next->next_ = waiting_.load();
    while (!waiting_.compare_exchange_weak(next->next_, next)) {}
    // If the interpreter's queue is full, the next release or drain finds the reference.
    if (!is_asked_for_.exchange(true) && Py_AddPendingCall(&drain, nullptr) != 0) { is_asked_for_ = false; }
  }

  /// Releases what waits. The thread has the interpreter's lock.
  static int drain(void* = nullptr) noexcept
  {
    // Before the list is taken: what is added from now on asks again.
    is_asked_for_ = false;
    auto* first   = waiting_.exchange(nullptr);
    while (first != nullptr) {
      auto const owned = std::unique_ptr<given_up>{first};
      first = owned->next_;
      Py_DECREF(owned->object_);
    }
    return 0;
  }

 private:
  given_up(PyObject* object, given_up* next) noexcept : object_{object}, next_{next} {}

  static inline std::atomic<given_up*> waiting_{nullptr};
  static inline std::atomic<bool> is_asked_for_{false};
  PyObject* object_;
  given_up* next_;
};

/// A resource of RMM's, with the Python object that it belongs to: RMM's callback resource calls functions that only
/// its Python object keeps.
class kept_resource {
 public:
  /// Takes a new reference to the object. The thread has the interpreter's lock.
  kept_resource(any_device_resource resource, PyObject* object) : resource_{std::move(resource)}
  {
    Py_INCREF(object);
    object_ = std::shared_ptr<PyObject>{object, &given_up::release};
  }

  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
  {
    return resource_.allocate(stream, bytes, alignment);
  }
  void deallocate(::cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    resource_.deallocate(stream, pointer, bytes, alignment);
  }
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment)
  {
    return resource_.allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    resource_.deallocate_sync(pointer, bytes, alignment);
  }
  [[nodiscard]] bool operator==(kept_resource const& other) const { return resource_ == other.resource_; }
  friend constexpr void get_property(kept_resource const&, ::cuda::mr::device_accessible) noexcept {}

 private:
  // Declared first, so that it ends last.
  std::shared_ptr<PyObject> object_;
  any_device_resource resource_;
};

/// Takes the functions of the package `rmm_rs`. -1, with a Python exception, if it is not there, or too old.
[[nodiscard]] inline int load() noexcept { return rmm_rs::load_python_table() ? 0 : -1; }

/// The resource of an object of the package `rmm_rs`: a new reference. Null, with a Python exception, if it is none. The
/// thread has the interpreter's lock.
[[nodiscard]] inline rmm_rs_resource const* resource_of(PyObject* object) noexcept
{
  return rmm_rs_python_resource(rmm_rs::python_table, object);
}

/// Takes over a reference.
[[nodiscard]] inline device_resource* taken_from(rmm_rs_resource const* owned) { return new device_resource{owned}; }

/// A resource that refuses to allocate, for an object that is not made yet.
[[nodiscard]] inline device_resource* null_resource() { return new device_resource{nullptr}; }

/// A resource of RMM's as one for the engine. The thread has the interpreter's lock.
[[nodiscard]] inline device_resource* upstream_of(rmm::device_async_resource_ref resource, PyObject* object)
{
  return new device_resource{rmm_rs::make_upstream(kept_resource{any_device_resource{resource}, object})};
}

/// A pool. Sizes are in bytes, and 0 is no maximum.
[[nodiscard]] inline device_resource* pool_over(device_resource const& upstream,
                                                std::uint64_t initial_size,
                                                std::uint64_t maximum_size,
                                                std::uint32_t preset,
                                                std::uint32_t policy)
{
  rmm_rs::pool_options options{};
  options.initial_size = initial_size;
  options.maximum_size = maximum_size;
  options.preset       = static_cast<rmm_rs::pool_preset>(preset);
  options.policy       = static_cast<rmm_rs::stream_policy>(policy);
  return new device_resource{device_resource::pool(upstream, options)};
}

inline void set_policy(device_resource const& resource, std::uint32_t policy)
{
  resource.set_stream_policy(static_cast<rmm_rs::stream_policy>(policy));
}

inline void forget(std::uintptr_t stream) { rmm_rs::forget_stream(reinterpret_cast<cudaStream_t>(stream)); }

/// What RMM's classes keep: a reference to a resource that outlives it. `Reference` is the type that RMM's Cython has
/// for it.
template <class Reference>
[[nodiscard]] std::optional<Reference> reference_to(device_resource& resource)
{
  return Reference{rmm::device_async_resource_ref{resource}};
}

/// Releases the references to Python objects that wait. The thread has the interpreter's lock.
inline void drain() noexcept { (void)given_up::drain(); }

}  // namespace rmm_rs_plugin
