// The exceptions of allocations.
#include <rmm/error.hpp>

RMM_NAMESPACE_BEGIN

bad_alloc::bad_alloc(std::string const& msg) : _what{std::string{"std::bad_alloc: "} + msg} {}
bad_alloc::bad_alloc(char const* msg) : bad_alloc{std::string{msg}} {}
char const* bad_alloc::what() const noexcept { return _what.c_str(); }

out_of_memory::out_of_memory(std::string const& msg)
  : bad_alloc{std::string{"out_of_memory: "} + msg}
{
}
out_of_memory::out_of_memory(char const* msg) : out_of_memory{std::string{msg}} {}

RMM_NAMESPACE_END
