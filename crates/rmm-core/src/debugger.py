# How gdb shows a type-erased resource: as the type that it holds.
import re

import gdb
import gdb.printing

# What a resource is kept in.
HELD = re.compile(r"^rmm_core::erased::held::Held<(.+)>$")
# Entries of a table of functions to look at, behind the destructor, size and alignment.
METHODS = range(3, 12)


def type_behind(trait_object):
    """The name of the type that a pointer to a trait object points to, by the methods in its table."""
    table = trait_object["vtable"].cast(gdb.lookup_type("usize").pointer())
    for entry in METHODS:
        block = gdb.block_for_pc(int(table[entry]))
        while block is not None and block.function is None:
            block = block.superblock
        if block is None or block.function.type.code != gdb.TYPE_CODE_FUNC:
            continue
        # The first argument of a method is a pointer to the type.
        arguments = block.function.type.fields()
        if arguments and arguments[0].type.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
            return arguments[0].type.target().name
    return None


class AnyResource:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        trait_object = self.value["shared"]["__0"]["ptr"]["pointer"]
        name = type_behind(trait_object) or "a resource"
        name = HELD.sub(r"\1", name)
        return f"AnyResource({name}) at {int(trait_object['pointer']):#x}"


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("rmm-core")
    collection.add_printer("AnyResource", r"^rmm_core::.*::AnyResource<.*>$", AnyResource)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
