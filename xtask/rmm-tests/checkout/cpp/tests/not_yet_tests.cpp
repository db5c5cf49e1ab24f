// A test of something that these headers do not have.
#include <rmm/a_header_of_a_later_version.hpp>
