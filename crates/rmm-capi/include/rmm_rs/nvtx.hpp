// The figures of a pool as counters of NVTX, which profilers show beside kernels. It needs the
// headers of NVTX 3.2 or newer, which come with CUDA and as the wheel nvidia-nvtx, so it is not a
// part of rmm_rs.hpp.
#ifndef RMM_RS_NVTX_HPP
#define RMM_RS_NVTX_HPP

#include "resource.hpp"

#if !__has_include(<nvtx3/nvToolsExtCounters.h>)
#error "rmm_rs/nvtx.hpp needs nvtx3/nvToolsExtCounters.h: NVTX 3.2 or newer"
#endif
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>

#include <cstdint>
#include <string>
#include <utility>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// Three counters of a pool in the domain `rmm`: NAME/live, NAME/reserved and NAME/largest free, in
/// bytes. Without a profiler they do nothing. The object keeps the resource alive.
class nvtx_counters {
 public:
  /// Of the pool, or of the first one below the resource.
  nvtx_counters(std::string const& name, device_resource resource)
    : resource_{std::move(resource)},
      live_{made(name + "/live")},
      reserved_{made(name + "/reserved")},
      largest_free_{made(name + "/largest free")}
  {
  }

  /// Gives the profiler the figures of now, on any thread. It takes the lock of the pool. Throws
  /// logic_error if there is no pool.
  void sample() const
  {
    auto const figures = resource_.get_pool_statistics();
    give(live_, figures.live_bytes);
    give(reserved_, figures.reserved_bytes);
    give(largest_free_, figures.largest_free_bytes);
  }

 private:
  [[nodiscard]] static nvtxDomainHandle_t domain()
  {
    static auto const made = nvtxDomainCreateA("rmm");
    return made;
  }

  [[nodiscard]] static std::uint64_t made(std::string const& name)
  {
    nvtxSemanticsCounter_t bytes{};
    bytes.header.structSize    = sizeof bytes;
    bytes.header.semanticId    = NVTX_SEMANTIC_ID_COUNTERS_V1;
    bytes.header.version       = NVTX_COUNTER_SEMANTIC_VERSION;
    bytes.flags                = NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT;
    bytes.unit                 = "B";
    bytes.unitScaleNumerator   = 1;
    bytes.unitScaleDenominator = 1;
    nvtxCounterAttr_t counter{};
    counter.structSize = sizeof counter;
    counter.schemaId   = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
    counter.name       = name.c_str();
    counter.scopeId    = NVTX_SCOPE_CURRENT_SW_PROCESS;
    counter.semantics  = &bytes.header;
    return nvtxCounterRegister(domain(), &counter);
  }

  static void give(std::uint64_t counter, std::uint64_t value)
  {
    nvtxCounterSampleInt64(domain(), counter, static_cast<std::int64_t>(value));
  }

  device_resource resource_;
  std::uint64_t live_;
  std::uint64_t reserved_;
  std::uint64_t largest_free_;
};

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_NVTX_HPP
