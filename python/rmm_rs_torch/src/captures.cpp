#include "captures.hpp"

#include "engine.hpp"

#include <atomic>

namespace rmm_rs_torch {

namespace {

std::atomic<int> announced{0};

}  // namespace

void announce_capture()
{
  check(engine->rmm_rs_capture_announce());
  announced.fetch_add(1);
}

void withdraw_capture()
{
  announced.fetch_sub(1);
  check(engine->rmm_rs_capture_withdraw());
}

bool any_capture_announced() noexcept { return announced.load(std::memory_order_relaxed) > 0; }

bool is_captured(cudaStream_t stream) noexcept
{
  auto status     = cudaStreamCaptureStatusNone;
  auto const code = cudaStreamIsCapturing(stream, &status);
  // It is the thread's last error, too, which a later check would find.
  if (code != cudaSuccess) { (void)cudaGetLastError(); }
  // The legacy stream while another is captured: there is a capture.
  return code == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone;
}

}  // namespace rmm_rs_torch
