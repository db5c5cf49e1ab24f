// Kernels, registered and launched as the code of a compiler does it. `saxpy` is declared in
// xtask/src/rmm_tests/libraries.rs.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(
  void**, char const*, char*, char const*, int, uint3*, uint3*, dim3*, dim3*, int*);
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, CUstream_st*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, void const*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);
}

namespace {

constexpr std::size_t count = 1000;

/// The functions on the host that stand for kernels.
void saxpy() {}
void not_declared() {}
void not_registered() {}

void** module_of_this{};

__attribute__((constructor)) void load()
{
  static int image{};
  module_of_this = __cudaRegisterFatBinary(&image);
  auto const add = [](void (*function)(), char const* name) {
    __cudaRegisterFunction(module_of_this,
                           reinterpret_cast<char const*>(function),
                           nullptr,
                           name,
                           -1,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr);
  };
  add(saxpy, "_Z5saxpyPfPKffm");
  add(not_declared, "not_declared");
  __cudaRegisterFatBinaryEnd(module_of_this);
}

__attribute__((destructor)) void unload() { __cudaUnregisterFatBinary(module_of_this); }

void const* address(void (*function)()) { return reinterpret_cast<void const*>(function); }

class Kernels : public testing::Test {
 protected:
  void SetUp() override
  {
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&x), count * sizeof(float)), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&y), count * sizeof(float)), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(x, 0, count * sizeof(float), stream), cudaSuccess);
  }

  void TearDown() override
  {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaFree(x), cudaSuccess);
    EXPECT_EQ(cudaFree(y), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }

  cudaStream_t stream{};
  float* x{};
  float* y{};
  float a{2};
  std::size_t n{count};
  void* arguments[4]{&y, &x, &a, &n};
};

}  // namespace

TEST_F(Kernels, ADeclaredOneIsLaunchedAgainAndAgain)
{
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cudaLaunchKernel(address(saxpy), 4, 256, arguments, 0, stream), cudaSuccess);
  }
}

TEST_F(Kernels, ALaunchConfigurationIsTakenOnce)
{
  EXPECT_EQ(__cudaPushCallConfiguration(dim3(4, 2), 256, 8, stream), 0U);
  dim3 grid, block;
  std::size_t shared{};
  cudaStream_t its{};
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &its), cudaSuccess);
  EXPECT_EQ(grid.y, 2U);
  EXPECT_EQ(block.x, 256U);
  EXPECT_EQ(shared, 8U);
  EXPECT_EQ(its, stream);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &its),
            cudaErrorMissingConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMissingConfiguration);
}

TEST_F(Kernels, AHandleLaunches)
{
  cudaKernel_t kernel{};
  EXPECT_EQ(__cudaGetKernel(&kernel, address(saxpy)), cudaSuccess);
  EXPECT_EQ(__cudaLaunchKernel(kernel, 4, 256, arguments, 0, stream), cudaSuccess);
  cudaLaunchConfig_t config{};
  config.gridDim  = 4;
  config.blockDim = 256;
  config.stream   = stream;
  EXPECT_EQ(cudaLaunchKernelExC(&config, address(saxpy), arguments), cudaSuccess);
}

TEST_F(Kernels, OneThatIsNotDeclaredOrRegisteredIsNoFunction)
{
  for (auto* function : {not_declared, not_registered}) {
    EXPECT_EQ(cudaLaunchKernel(address(function), 4, 256, arguments, 0, stream),
              cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
  }
}

TEST_F(Kernels, AWrongConfigurationIsRefused)
{
  EXPECT_EQ(cudaLaunchKernel(address(saxpy), 0, 256, arguments, 0, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}
