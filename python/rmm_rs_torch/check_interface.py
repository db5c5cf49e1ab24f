"""Compares the virtual functions of PyTorch's class with those that this package has looked at.

    python check_interface.py .../c10/cuda/CUDACachingAllocator.h

A new one may have a body in the base class that throws, which no compiler notices.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

KNOWN = frozenset(
    """raw_alloc raw_alloc_with_stream raw_delete init getMemoryFraction setMemoryFraction
    getExpandableSegmentSizes enable isEnabled cacheInfo getBaseAllocation recordStream snapshot
    beginAllocateToPool endAllocateToPool markCaptureBegin markCaptureEnd releasePool
    getPoolUseCount createOrIncrefPool setUseOnOOM setNoSplit checkPoolLiveAllocations
    shareIpcHandle getIpcDevPtr isHistoryEnabled getContextForPointer recordHistory
    recordAnnotation pushCompileContext popCompileContext supportsUserMetadata setUserMetadata
    getUserMetadata annotateMemory attachOutOfMemoryObserver attachOomRejectionObserver
    attachAllocatorTraceTracker enablePeerAccess memcpyAsync getCheckpointState
    setCheckpointPoolState allocateWithAddress name""".split()
)


def virtual_functions(header: str) -> set[str]:
    """The names of the virtual functions of `CUDAAllocator`."""
    begin = header.index("class CUDAAllocator : public")
    body = header[begin : header.index("\n};", begin)]
    return set(re.findall(r"virtual\s[^;{(]*?\b(\w+)\s*\(", body))


if __name__ == "__main__":
    found = virtual_functions(Path(sys.argv[1]).read_text())
    if unknown := sorted(found - KNOWN):
        sys.exit(f"{sys.argv[1]} has virtual functions that rmm-rs does not: {', '.join(unknown)}")
    if len(found) < 30:
        sys.exit(f"{sys.argv[1]} has {len(found)} virtual functions: is it another class?")
