# How gdb shows containers of device memory: by their length, size and address. The contents are on
# the device, where gdb for the host cannot read.
import gdb
import gdb.printing


def described(name, buffer, elements=""):
    block = buffer["block"]
    pointer = int(block["pointer"]["__0"])
    capacity = int(block["layout"]["size"])
    size = int(buffer["len"])
    spare = f" of {capacity}" if capacity != size else ""
    resource = block["resource"]["value"]
    if resource.type.name.startswith("core::mem::maybe_dangling"):
        resource = resource["__0"]
    return f"{name}: {elements}{size}{spare} bytes at {pointer:#x}, {resource.format_string()}"


class DeviceBuffer:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return described("DeviceBuffer", self.value)


class DeviceUVector:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        element = self.value.type.template_argument(0)
        buffer = self.value["buffer"]
        count = int(buffer["len"]) // max(element.sizeof, 1)
        return described(f"DeviceUVector<{element.name}>", buffer, f"{count} elements, ")


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("rmm-containers")
    collection.add_printer("DeviceBuffer", r"^rmm_containers::.*::DeviceBuffer$", DeviceBuffer)
    collection.add_printer("DeviceUVector", r"^rmm_containers::.*::DeviceUVector<.*>$", DeviceUVector)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
