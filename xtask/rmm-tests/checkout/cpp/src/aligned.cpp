// Arithmetic on sizes. Alignments are powers of two.
#include <rmm/aligned.hpp>

#include <bit>
#include <cstdint>

RMM_NAMESPACE_BEGIN

bool is_pow2(std::size_t value) noexcept { return std::has_single_bit(value); }

bool is_supported_alignment(std::size_t alignment) noexcept { return is_pow2(alignment); }

bool is_supported_base_resource_alignment(std::size_t alignment) noexcept
{
  return is_pow2(alignment) && alignment <= CUDA_ALLOCATION_ALIGNMENT;
}

std::size_t align_down(std::size_t value, std::size_t alignment) noexcept
{
  return value - value % alignment;
}

std::size_t align_up(std::size_t value, std::size_t alignment) noexcept
{
  return align_down(value + alignment - 1, alignment);
}

bool is_aligned(std::size_t value, std::size_t alignment) noexcept
{
  return value % alignment == 0;
}

bool is_pointer_aligned(void* ptr, std::size_t alignment) noexcept
{
  return is_aligned(reinterpret_cast<std::uintptr_t>(ptr), alignment);
}

RMM_NAMESPACE_END
