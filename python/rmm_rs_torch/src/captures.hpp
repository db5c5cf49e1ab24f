// Captures of streams: the engine must know of them, so that it makes no call that breaks one.
#pragma once

#include <cuda_runtime_api.h>

namespace rmm_rs_torch {

/// Says to the engine that a capture begins.
void announce_capture();
/// Says that one has ended.
void withdraw_capture();
/// Whether one was announced and has not ended.
bool any_capture_announced() noexcept;

/// Whether a stream is captured now.
bool is_captured(cudaStream_t stream) noexcept;

}  // namespace rmm_rs_torch
