// Kernels, as the compiler's code registers them when a program starts. The software device finds
// one by its name in the source: that which the user declares.
#include "kernels.hpp"

#include "runtime.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

/// What a launch is between its `<<<>>>` and its arguments.
struct configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

thread_local std::vector<configuration> configurations;

struct registered_kernel {
  std::string name;
  void** module;
};

struct table {
  std::mutex lock;
  std::map<void const*, registered_kernel> kernels;
  std::map<std::pair<CUcontext, void const*>, CUfunction> found;
};

/// Never destroyed: programs unregister their kernels at exit.
table& registered()
{
  static auto* const the_table = new table;
  return *the_table;
}

/// The name without the parameters, which a mangled name has.
std::string name_in_source(char const* name)
{
  int status{};
  char* const demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  if (status != 0) { return name; }
  std::string text{demangled};
  std::free(demangled);
  if (text.rfind("void ", 0) == 0) { text.erase(0, 5); }
  return text.substr(0, text.find_first_of("<("));
}

}  // namespace

CUresult stand_in::kernel(void const* host_function, CUfunction* out) noexcept
{
  CUcontext context{};
  if (auto const code = cuCtxGetCurrent(&context); code != CUDA_SUCCESS) { return code; }
  auto& all        = registered();
  auto const guard = std::lock_guard{all.lock};
  auto const known = all.found.find({context, host_function});
  if (known != all.found.end()) {
    *out = known->second;
    return CUDA_SUCCESS;
  }
  auto const one = all.kernels.find(host_function);
  if (one == all.kernels.end()) { return static_cast<CUresult>(cudaErrorInvalidDeviceFunction); }
  CUmodule module{};
  auto code = cuModuleLoadData(&module, one->second.module);
  if (code == CUDA_SUCCESS) { code = cuModuleGetFunction(out, module, one->second.name.c_str()); }
  if (code == CUDA_ERROR_NOT_FOUND) { return static_cast<CUresult>(cudaErrorInvalidDeviceFunction); }
  if (code == CUDA_SUCCESS) { all.found[{context, host_function}] = *out; }
  return code;
}

extern "C" {

void** __cudaRegisterFatBinary(void* image) { return new void*{image}; }

void __cudaRegisterFatBinaryEnd(void**) {}

char __cudaInitModule(void**) { return 1; }

void __cudaUnregisterFatBinary(void** module)
{
  auto& all = registered();
  {
    auto const guard = std::lock_guard{all.lock};
    std::erase_if(all.kernels, [=](auto const& entry) { return entry.second.module == module; });
  }
  delete module;
}

void __cudaRegisterFunction(void** module,
                            char const* host_function,
                            char*,
                            char const* device_name,
                            int,
                            uint3*,
                            uint3*,
                            dim3*,
                            dim3*,
                            int*)
{
  auto& all        = registered();
  auto const guard = std::lock_guard{all.lock};
  all.kernels[host_function] = {name_in_source(device_name), module};
}

unsigned __cudaPushCallConfiguration(dim3 grid,
                                     dim3 block,
                                     std::size_t shared_bytes,
                                     CUstream_st* stream)
{
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid,
                                       dim3* block,
                                       std::size_t* shared_bytes,
                                       void* stream)
{
  if (configurations.empty()) { return stand_in::record(cudaErrorMissingConfiguration); }
  auto const last = configurations.back();
  configurations.pop_back();
  *grid                               = last.grid;
  *block                              = last.block;
  *shared_bytes                       = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

/// A handle of a kernel is the address of its function on the host.
cudaError_t __cudaGetKernel(cudaKernel_t* out, void const* host_function)
{
  *out = static_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}

}  // extern "C"
