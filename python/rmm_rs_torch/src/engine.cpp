#include "engine.hpp"

#include <c10/util/Exception.h>

namespace rmm_rs_torch {

std::string last_error_message()
{
  auto const length = engine->rmm_rs_last_error_message(nullptr, 0);
  auto text         = std::string(length + 1, '\0');
  engine->rmm_rs_last_error_message(text.data(), text.size());
  text.resize(length);
  return text;
}

void check(rmm_rs_status status)
{
  TORCH_CHECK(status == RMM_RS_OK, last_error_message());
}

}  // namespace rmm_rs_torch
