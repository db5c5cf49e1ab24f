// What the extension module needs of C++: a resource of RMM's as an upstream, and the reference that RMM's classes keep.
#pragma once

#include <Python.h>

#include <rmm/resource_ref.hpp>
#include <rmm_rs_python.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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

/// Lets threads begin to wait for Python's lock, until the interpreter ends: a thread that waits for it then never
/// returns.
class entrance {
 public:
  /// Whether the thread may ask for the lock; if so it calls `passed` as soon as it has it.
  [[nodiscard]] static bool enter() noexcept
  {
    // Counted first: `close` either sees it, or has been before.
    waiting_.fetch_add(1);
    if (!is_closed_.load() && Py_IsInitialized() != 0) { return true; }
    passed();
    return false;
  }

  static void passed() noexcept
  {
    waiting_.fetch_sub(1);
    waiting_.notify_all();
  }

  /// Lets those that wait pass, and no more. The thread has the lock, and lets go of it meanwhile.
  static void close() noexcept
  {
    is_closed_.store(true);
    auto* const state = PyEval_SaveThread();
    for (auto waiting = waiting_.load(); waiting != 0; waiting = waiting_.load()) {
      waiting_.wait(waiting);
    }
    PyEval_RestoreThread(state);
  }

 private:
  static inline std::atomic<int> waiting_{0};
  static inline std::atomic<bool> is_closed_{false};
};

/// What a resource is made of at its first request, when its device is current and the process's variables are set. What
/// it makes lives as long as itself.
class deferred_resource {
 public:
  deferred_resource(std::string spec, std::uint32_t policy) : state_{std::make_shared<state>(std::move(spec), policy)} {}

  /// The resource, if there was a request; else null.
  [[nodiscard]] device_resource const* made() const noexcept { return state_->pointer.load(std::memory_order_acquire); }

  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
  {
    return state_->get().allocate(stream, bytes, alignment);
  }
  void deallocate(::cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    if (auto const* const resource = made()) { resource->deallocate(stream, pointer, bytes, alignment); }
  }
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment)
  {
    return state_->get().allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    if (auto const* const resource = made()) { resource->deallocate_sync(pointer, bytes, alignment); }
  }
  [[nodiscard]] bool operator==(deferred_resource const& other) const noexcept { return state_ == other.state_; }
  friend constexpr void get_property(deferred_resource const&, ::cuda::mr::device_accessible) noexcept {}

 private:
  struct state {
    state(std::string text, std::uint32_t number) : spec{std::move(text)}, policy{number} {}

    /// Makes the resource if there is none. What fails is thrown, and tried again at the next request.
    device_resource const& get()
    {
      if (auto const* const known = pointer.load(std::memory_order_acquire)) { return *known; }
      auto const lock = std::scoped_lock{mutex};
      if (!resource) {
        auto made = device_resource::from_spec(spec);
        made.set_stream_policy(static_cast<rmm_rs::stream_policy>(policy));
        pointer.store(&resource.emplace(std::move(made)), std::memory_order_release);
      }
      return *resource;
    }

    std::string const spec;
    std::uint32_t const policy;
    std::mutex mutex;
    std::optional<device_resource> resource;
    std::atomic<device_resource const*> pointer{nullptr};
  };

  std::shared_ptr<state> state_;
};

/// Calls a function of Python's, by a weak reference to its owner. It takes the lock, and calls `entrance::passed` then.
using pressure_function = int (*)(PyObject* weak, std::uint64_t requested, std::uint64_t missing);

/// Registers a function with the pool of a resource, until what is returned ends. The thread has the interpreter's lock.
[[nodiscard]] inline rmm_rs::pressure_callback* on_pressure(device_resource const& resource,
                                                            PyObject* weak,
                                                            pressure_function function)
{
  Py_INCREF(weak);
  auto const kept = std::shared_ptr<PyObject>{weak, &given_up::release};
  return new rmm_rs::pressure_callback{
    resource.get(), [kept, function](rmm_rs_pressure const& pressure) {
      return entrance::enter() && function(kept.get(), pressure.requested, pressure.missing) != 0;
    }};
}

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
template <class Reference, class Resource>
[[nodiscard]] std::optional<Reference> reference_to(Resource& resource)
{
  return Reference{rmm::device_async_resource_ref{resource}};
}

/// Releases the references to Python objects that wait. The thread has the interpreter's lock.
inline void drain() noexcept { (void)given_up::drain(); }

}  // namespace rmm_rs_plugin
