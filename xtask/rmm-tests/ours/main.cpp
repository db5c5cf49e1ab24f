// Runs the tests, unless the resource cannot be made on this device: then it says why, and fails.
#include "fixtures.hpp"

#include <cstdio>
#include <exception>

int main(int count, char** arguments)
{
  ::testing::InitGoogleTest(&count, arguments);
  try {
    rmm_rs_tests::probe();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
