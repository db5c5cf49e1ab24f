// The counters that a profiler gets: this program is the profiler, too.

#include "check.hpp"

#include <rmm_rs/nvtx.hpp>

#include <map>
#include <string>

using rmm_rs::device_resource;
using rmm_rs::nvtx_counters;

namespace {

struct registered {
  std::string unit;
  std::vector<std::int64_t> values;
};

/// What was registered, by name; the identifier of a counter is its place, from 1.
std::map<std::string, registered> counters;
std::vector<std::string> names;

std::uint64_t register_counter(nvtxDomainHandle_t, nvtxCounterAttr_t const* attributes)
{
  CHECK(attributes->schemaId == NVTX_PAYLOAD_ENTRY_TYPE_INT64);
  CHECK(attributes->semantics->semanticId == NVTX_SEMANTIC_ID_COUNTERS_V1);
  auto const* const kind = reinterpret_cast<nvtxSemanticsCounter_t const*>(attributes->semantics);
  counters[attributes->name].unit = kind->unit;
  names.emplace_back(attributes->name);
  return names.size();
}

void sample(nvtxDomainHandle_t, std::uint64_t counter, std::int64_t value)
{
  counters.at(names.at(counter - 1)).values.push_back(value);
}

/// What a profiler does when a module of NVTX is used for the first time.
int attach(nvtxExtModuleInfo_t* module)
{
  if (module->moduleId != NVTX_EXT_COUNTERS_MODULEID) { return 0; }
  auto* const slots = module->segments[0].functionSlots;
  slots[NVTX3EXT_CBID_nvtxCounterRegister]    = reinterpret_cast<std::intptr_t>(&register_counter);
  slots[NVTX3EXT_CBID_nvtxCounterSampleInt64] = reinterpret_cast<std::intptr_t>(&sample);
  return 1;
}

}  // namespace

TEST(a_profiler_gets_the_figures_of_a_pool)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  nvtx_counters const of_pool{"workers", rmm_rs::device_resource::limiting(pool, 1 << 30)};
  of_pool.sample();
  void* const memory = pool.allocate(legacy, 1000);
  of_pool.sample();
  pool.deallocate(legacy, memory, 1000);
  std::vector<std::string> const all{"workers/live", "workers/reserved", "workers/largest free"};
  CHECK(names == all);
  auto const& live = counters.at("workers/live");
  CHECK(live.unit == "B" && live.values == (std::vector<std::int64_t>{0, 1024}));
  auto const reserved = static_cast<std::int64_t>(pool.pool_reserved_bytes());
  CHECK(counters.at("workers/reserved").values == (std::vector<std::int64_t>{0, reserved}));
  CHECK(counters.at("workers/largest free").values.back() == reserved - 1024);
}

TEST(there_has_to_be_a_pool)
{
  nvtx_counters const none{"none", device_resource::cuda_resource()};
  THROWS(rmm_rs::logic_error, "pool", none.sample());
}

int main()
{
  // Where NVTX looks for a profiler that is linked into the program.
  InitializeInjectionNvtxExtension_fnptr = &attach;
  return check::run_all();
}
