// The typed suites over the resources of this library.
#include "mr_ref_test_allocation.hpp"
#include "mr_ref_test_basic.hpp"
#include "mr_ref_test_mt.hpp"

#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

namespace rmm::test {

template <typename Resource>
struct fixture : public ::testing::Test {
  explicit fixture(Resource made) : mr{std::move(made)} {}

  Resource mr;
  device_async_resource_ref ref{mr};
  rmm::cuda_stream stream;
};

struct cuda_fixture : fixture<mr::cuda_memory_resource> {
  cuda_fixture() : fixture{mr::cuda_memory_resource{}} {}
};

struct pool_fixture : fixture<mr::pool_memory_resource> {
  pool_fixture() : fixture{mr::pool_memory_resource{mr::cuda_memory_resource{}, 1_MiB}} {}
};

struct statistics_fixture : fixture<mr::statistics_resource_adaptor> {
  statistics_fixture() : fixture{mr::statistics_resource_adaptor{mr::cuda_memory_resource{}}} {}

  ~statistics_fixture() override { EXPECT_EQ(mr.get_bytes_counter().value, 0); }
};

using fixtures = ::testing::Types<cuda_fixture, pool_fixture, statistics_fixture>;

INSTANTIATE_TYPED_TEST_SUITE_P(Resources, mr_ref_test_basic, fixtures);
INSTANTIATE_TYPED_TEST_SUITE_P(Resources, mr_ref_test_allocation, fixtures);
INSTANTIATE_TYPED_TEST_SUITE_P(Resources, mr_ref_test_mt, fixtures);

}  // namespace rmm::test
