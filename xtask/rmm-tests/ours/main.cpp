// Runs the tests; ends with status 77, as the tests of Automake do, if the resource cannot be made
// on this device.
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
    return 77;
  }
  return RUN_ALL_TESTS();
}
