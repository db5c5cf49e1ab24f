// Exceptions, and how they become a status and back.
#ifndef RMM_RS_ERRORS_HPP
#define RMM_RS_ERRORS_HPP

#include "../rmm_rs.h"

#include <cuda/stream_ref>
#include <cuda/version>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#if !defined(_MSVC_LANG) && __cplusplus < 202002L
#error "rmm_rs.hpp needs C++20"
#endif
#if CCCL_VERSION < 3003000
#error "rmm_rs.hpp needs CCCL 3.3 or newer, which has cuda::mr::any_resource"
#endif

static_assert(RMM_RS_ABI_VERSION >> 16 == 1, "rmm_rs.h and rmm_rs.hpp are of different releases");

// RMM's exceptions are defined in librmm. A program that has RMM's headers in its path and does not
// link librmm defines RMM_RS_NO_RMM.
#if !defined(RMM_RS_NO_RMM) && __has_include(<rmm/error.hpp>)
#include <rmm/error.hpp>
#define RMM_RS_HAS_RMM 1
#else
#define RMM_RS_HAS_RMM 0
#endif

// Named for the exceptions, so that objects compiled with RMM's headers and without are not mixed
// up. A header that has the functions called in another way than by linking names its own.
#if defined(RMM_RS_NAMESPACE)
#elif RMM_RS_HAS_RMM
#define RMM_RS_NAMESPACE v1_rmm
#else
#define RMM_RS_NAMESPACE v1
#endif

// Types that cross libraries, as exceptions and inside any_resource, are one type in all of them.
#if defined(__GNUC__)
#define RMM_RS_TYPE __attribute__((visibility("default")))
#define RMM_RS_COLD __attribute__((noinline, cold))
#else
#define RMM_RS_TYPE
#define RMM_RS_COLD
#endif

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

#if RMM_RS_HAS_RMM
using bad_alloc = rmm::bad_alloc;
using out_of_memory = rmm::out_of_memory;
using invalid_argument = rmm::invalid_argument;
using cuda_error = rmm::cuda_error;
using logic_error = rmm::logic_error;
#else
/// An allocation failed. RMM_RS_ALLOCATION_FAILED, and the base of out_of_memory.
class RMM_RS_TYPE bad_alloc : public std::bad_alloc {
 public:
  explicit bad_alloc(std::string const& message) : text_{message} {}
  [[nodiscard]] char const* what() const noexcept override { return text_.what(); }

 private:
  std::runtime_error text_;  // has a counted string, whose copies cannot fail
};

/// There is not enough memory. RMM_RS_OUT_OF_MEMORY.
class RMM_RS_TYPE out_of_memory : public bad_alloc {
 public:
  using bad_alloc::bad_alloc;
};

/// The driver reported an error. RMM_RS_CUDA_ERROR.
class RMM_RS_TYPE cuda_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument is not allowed. RMM_RS_INVALID_ARGUMENT.
using std::invalid_argument;
/// The resource cannot do it (RMM_RS_REFUSED), or not now (RMM_RS_NOT_READY), or has a fault
/// (RMM_RS_PANIC).
using std::logic_error;
#endif

namespace detail {

/// The text that `copy(buffer, capacity)` writes, whose whole length it returns.
template <class Copy>
[[nodiscard]] std::string text_of(Copy copy)
{
  std::string text(255, '\0');
  for (;;) {
    auto const length = copy(text.data(), text.size() + 1);
    auto const is_whole = length <= text.size();
    text.resize(length);
    if (is_whole) { return text; }
  }
}

}  // namespace detail

/// The text of this thread's last failure; empty if there was none.
[[nodiscard]] inline std::string last_error_message()
{
  return detail::text_of(&rmm_rs_last_error_message);
}

/// The status, the driver's code and the sizes of this thread's last failure.
[[nodiscard]] inline rmm_rs_error last_error_detail() noexcept
{
  rmm_rs_error detail{};
  detail.size = sizeof(detail);
  (void)rmm_rs_last_error_detail(&detail);
  return detail;
}

/// What would have let this thread's last failed request succeed, the best first.
[[nodiscard]] inline std::vector<rmm_rs_remedy> last_error_remedies()
{
  std::vector<rmm_rs_remedy> remedies(rmm_rs_last_error_remedy_count());
  for (std::size_t index = 0; index < remedies.size(); ++index) {
    remedies[index].size = sizeof(rmm_rs_remedy);
    (void)rmm_rs_last_error_remedy(index, &remedies[index]);
  }
  return remedies;
}

namespace detail {

/// Throws the exception of a status, with the text of this thread's last failure.
[[noreturn]] RMM_RS_COLD inline void throw_status(std::int32_t status)
{
  auto const message = last_error_message();
  switch (status) {
    case RMM_RS_OUT_OF_MEMORY: throw out_of_memory{message};
    case RMM_RS_ALLOCATION_FAILED: throw bad_alloc{message};
    case RMM_RS_INVALID_ARGUMENT: throw invalid_argument{message};
    case RMM_RS_CUDA_ERROR: throw cuda_error{message};
    default: throw logic_error{message};
  }
}

inline void check(std::int32_t status)
{
  if (status != RMM_RS_OK) [[unlikely]] { throw_status(status); }
}

/// The status for the exception that is being handled, whose text becomes this thread's last
/// failure.
RMM_RS_COLD inline std::int32_t status_of_exception() noexcept
{
  auto const failed = [](std::int32_t status, char const* text) {
    rmm_rs_set_last_error(text);
    return status;
  };
  try {
    throw;
  } catch (out_of_memory const& error) {
    return failed(RMM_RS_OUT_OF_MEMORY, error.what());
  } catch (std::bad_alloc const& error) {
    return failed(RMM_RS_ALLOCATION_FAILED, error.what());
  } catch (std::invalid_argument const& error) {
    return failed(RMM_RS_INVALID_ARGUMENT, error.what());
  } catch (cuda_error const& error) {
    return failed(RMM_RS_CUDA_ERROR, error.what());
  } catch (::cuda::cuda_error const& error) {
    auto const is_full = error.status() == cudaErrorMemoryAllocation;
    return failed(is_full ? RMM_RS_OUT_OF_MEMORY : RMM_RS_CUDA_ERROR, error.what());
  } catch (std::logic_error const& error) {
    return failed(RMM_RS_REFUSED, error.what());
  } catch (std::exception const& error) {
    return failed(RMM_RS_ALLOCATION_FAILED, error.what());
  } catch (...) {
    return failed(RMM_RS_ALLOCATION_FAILED, "an exception that is no std::exception");
  }
}

}  // namespace detail

/// The version of the library that is loaded, such as "0.1.0".
[[nodiscard]] inline char const* version() noexcept { return rmm_rs_version(); }

/// Whether the library that is loaded has everything that this header calls.
[[nodiscard]] inline bool is_compatible() noexcept
{
  constexpr std::uint32_t wanted = RMM_RS_ABI_VERSION;
  auto const loaded = rmm_rs_abi_version();
  return loaded >> 16 == wanted >> 16 && (loaded & 0xffff) >= (wanted & 0xffff);
}

/// Whether there is a driver. A program without one may use the resource of host memory only.
[[nodiscard]] inline bool has_driver() noexcept { return rmm_rs_driver_status() == RMM_RS_OK; }

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_ERRORS_HPP
