//! The opcodes that are read, and the names of those that are not.

pub(super) const PROTO: u8 = 0x80;
pub(super) const FRAME: u8 = 0x95;
pub(super) const STOP: u8 = b'.';

pub(super) const NONE: u8 = b'N';
pub(super) const NEWTRUE: u8 = 0x88;
pub(super) const NEWFALSE: u8 = 0x89;
pub(super) const BININT: u8 = b'J';
pub(super) const BININT1: u8 = b'K';
pub(super) const BININT2: u8 = b'M';
pub(super) const LONG1: u8 = 0x8a;
pub(super) const LONG4: u8 = 0x8b;
pub(super) const BINFLOAT: u8 = b'G';
pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
pub(super) const BINUNICODE: u8 = b'X';
pub(super) const BINUNICODE8: u8 = 0x8d;

pub(super) const MARK: u8 = b'(';
pub(super) const EMPTY_LIST: u8 = b']';
pub(super) const EMPTY_DICT: u8 = b'}';
pub(super) const EMPTY_TUPLE: u8 = b')';
pub(super) const TUPLE1: u8 = 0x85;
pub(super) const TUPLE2: u8 = 0x86;
pub(super) const TUPLE3: u8 = 0x87;
pub(super) const TUPLE: u8 = b't';
pub(super) const APPEND: u8 = b'a';
pub(super) const APPENDS: u8 = b'e';
pub(super) const SETITEM: u8 = b's';
pub(super) const SETITEMS: u8 = b'u';

pub(super) const POP: u8 = b'0';
pub(super) const POP_MARK: u8 = b'1';
pub(super) const DUP: u8 = b'2';
pub(super) const BINGET: u8 = b'h';
pub(super) const LONG_BINGET: u8 = b'j';
pub(super) const BINPUT: u8 = b'q';
pub(super) const LONG_BINPUT: u8 = b'r';
pub(super) const MEMOIZE: u8 = 0x94;

/// The name of an opcode that imports, makes or calls something.
pub(super) fn of_code(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => return None,
    })
}

/// The name of an opcode for data that no snapshot has, or of protocols 0 and 1.
pub(super) fn of_other_data(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        b'I' => "INT",
        b'L' => "LONG",
        b'F' => "FLOAT",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'V' => "UNICODE",
        b'B' => "BINBYTES",
        b'C' => "SHORT_BINBYTES",
        0x8e => "BINBYTES8",
        0x96 => "BYTEARRAY8",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        b'l' => "LIST",
        b'd' => "DICT",
        b'g' => "GET",
        b'p' => "PUT",
        _ => return None,
    })
}
