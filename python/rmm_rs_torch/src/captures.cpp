#include "captures.hpp"

#include "engine.hpp"

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace rmm_rs_torch {

namespace {

std::atomic<int> announced{0};
// Shared by calls that hold captures back. Lock order: before all others but the interpreter's.
std::shared_mutex holding_back;
// How often this thread does: it has the mutex once.
thread_local int held_by_thread = 0;

}  // namespace

void announce_capture()
{
  check(engine->rmm_rs_capture_announce());
  announced.fetch_add(1);
  // Who holds captures back has seen none announced, and others hold none back any more.
  std::unique_lock const wait{holding_back};
}

void withdraw_capture()
{
  announced.fetch_sub(1);
  check(engine->rmm_rs_capture_withdraw());
}

bool any_capture_announced() noexcept { return announced.load() > 0; }

captures_held_back::captures_held_back() : is_held_{held_by_thread > 0}
{
  if (!is_held_) {
    std::shared_lock lock{holding_back};
    if (any_capture_announced()) { return; }
    is_held_ = true;
    lock.release();
  }
  ++held_by_thread;
}

captures_held_back::~captures_held_back()
{
  if (is_held_ && --held_by_thread == 0) { holding_back.unlock_shared(); }
}

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
