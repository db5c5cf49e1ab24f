// Needs what did not compile.
#include <gtest/gtest.h>

int missing_in_the_library();

TEST(NotLinked, Test) { EXPECT_EQ(missing_in_the_library(), 1); }
