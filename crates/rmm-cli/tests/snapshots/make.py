"""Writes the snapshots that the tests read, of the shape that torch.cuda.memory._snapshot() has.

Run it in this folder; it needs nothing but Python.
"""

import pickle

SEGMENT = 0x7F0000000000
OTHER_SEGMENT = 0x7F1000000000


def frame(filename, line, name):
    return {"filename": filename, "line": line, "name": name}


TRAIN = frame("/home/me/train.py", 12, "step")
MAIN = frame("/home/me/train.py", 40, "<module>")
INNER = frame("??", 0, "torch::unwind::unwind()")
STACK = [INNER, TRAIN, MAIN]
NATIVE = [INNER, frame("/build/Loss.cpp", 7, "at::loss<float>(int)")]


def entry(action, addr, size, time, stream=0, frames=STACK, **more):
    address = {"device_free" if action == "oom" else "addr": addr}
    return {
        "action": action,
        **address,
        "size": size,
        "stream": stream,
        "time_us": 1_700_000_000_000_000 + time,
        "compile_context": "N/A",
        "user_metadata": more.get("metadata", ""),
        "frames": frames,
        "pool_id": (0, 0),
    }


def block(address, size, requested, state="active_allocated", frames=STACK):
    return {
        "address": address,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": frames,
    }


def segment(device, address, total, blocks, stream=0):
    return {
        "device": device,
        "address": address,
        "total_size": total,
        "allocated_size": sum(b["size"] for b in blocks if b["state"] == "active_allocated"),
        "active_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),
        "requested_size": sum(b["requested_size"] for b in blocks if b["state"] != "inactive"),
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": STACK,
        "blocks": blocks,
    }


def annotation(stage, name, time):
    return {"stage": stage, "name": name, "device": 0, "time_us": 1_700_000_000_000_000 + time}


def small():
    """One device: two blocks from before the recording, one of which stays, a failure, growth."""
    first, second, third, fourth = (SEGMENT + i * 0x100000 for i in range(4))
    events = [
        entry("alloc", first, 1000, 0, metadata="weights"),
        entry("free_requested", second, 3000, 5, frames=NATIVE),
        entry("free_completed", second, 3000, 5, frames=NATIVE),
        entry("segment_alloc", OTHER_SEGMENT, 1 << 21, 9),
        entry("alloc", OTHER_SEGMENT, 2_000_000, 10, stream=0x55D0, frames=NATIVE),
        entry("oom", 123456, 1 << 40, 11),
        entry("free_requested", OTHER_SEGMENT, 2_000_000, 20, stream=0x55D0),
        entry("snapshot", 0, 0, 30, frames=[]),
        entry("annotate", first, 0, 35, metadata="embedding"),
        entry("free_completed", OTHER_SEGMENT, 2_000_000, 40, stream=0x55D0),
        entry("segment_free", OTHER_SEGMENT, 1 << 21, 41),
        entry("alloc", fourth, 500, 50),
    ]
    blocks = [
        block(first, 0x100000, 1000),
        block(second, 0x100000, 0, "inactive", []),
        block(third, 0x100000, 700_000),
        block(fourth, 0x100000, 500, "active_awaiting_free"),
    ]
    return {
        "segments": [segment(0, SEGMENT, 4 << 20, blocks)],
        "device_traces": [events, []],
        "allocator_settings": {"max_split_size": 2**64 - 1, "garbage_collection_threshold": 0.5},
        "external_annotations": [
            annotation("START", "outer", 3),
            annotation("START", "Optimizer.step#Adam.step", 10),
            annotation("END", "Optimizer.step#Adam.step", 25),
            annotation("END", "outer", 45),
        ],
    }


def devices():
    """Two devices, merged by time."""
    events = [
        [entry("alloc", SEGMENT, 100, 0), entry("free_completed", SEGMENT, 100, 30)],
        [entry("alloc", OTHER_SEGMENT, 200, 10), entry("alloc", OTHER_SEGMENT + 4096, 300, 20)],
    ]
    return {"segments": [], "device_traces": events}


if __name__ == "__main__":
    for protocol in range(2, 6):
        with open(f"small-{protocol}.pickle", "wb") as file:
            pickle.dump(small(), file, protocol)
    with open("devices.pickle", "wb") as file:
        pickle.dump(devices(), file, 4)
