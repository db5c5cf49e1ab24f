// Runs the tests, unless the resource cannot be made on this device: then it says why, and fails.
#include "fixtures.hpp"

#include <cstdio>
#include <exception>

int main(int count, char** arguments)
{
  struct probe : rmm_rs_tests::RMM_RS_FIXTURE {
    void TestBody() override {}
  };
  ::testing::InitGoogleTest(&count, arguments);
  try {
    probe const made{};
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
