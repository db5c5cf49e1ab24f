// Snapshots: the segments and blocks of all devices, with the history.
#pragma once

#include "history.hpp"
#include "private_pools.hpp"

namespace rmm_rs_torch {

/// What a device holds now. With an id other than {0, 0} that private pool alone.
c10::cuda::CUDACachingAllocator::SnapshotInfo take_snapshot(clients& all,
                                                            private_pools const& pools,
                                                            history& records,
                                                            c10::MempoolId_t id,
                                                            bool with_traces);

/// The blocks of a device that a pool serves, or all of them if it is null, by address.
std::vector<rmm_rs_client_block> blocks_of(rmm_rs_client const* client,
                                           rmm_rs_resource const* pool);

}  // namespace rmm_rs_torch
