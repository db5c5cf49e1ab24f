// Captures of streams: the engine must know of them, so that it makes no call that breaks one.
#pragma once

#include <cuda_runtime_api.h>

namespace rmm_rs_torch {

/// Says to the engine that a capture begins, and waits for calls that hold captures back.
void announce_capture();
/// Says that one has ended.
void withdraw_capture();
/// Whether one was announced and has not ended.
bool any_capture_announced() noexcept;

/// Holds captures back that are about to begin, for as long as it exists: for a wait for the
/// device, which would break one. A thread that does so already may make another.
class captures_held_back {
 public:
  captures_held_back();
  ~captures_held_back();
  captures_held_back(captures_held_back const&) = delete;
  /// Whether none was announced before. Otherwise none is held back.
  explicit operator bool() const noexcept { return is_held_; }

 private:
  bool is_held_;
};

/// Whether a stream is captured now.
bool is_captured(cudaStream_t stream) noexcept;

}  // namespace rmm_rs_torch
