"""Arrow arrays made by hand: also such as no library makes."""

import ctypes
import struct

NEW = ctypes.pythonapi.PyCapsule_New
NEW.restype, NEW.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
POINTER = ctypes.pythonapi.PyCapsule_GetPointer
POINTER.restype, POINTER.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


def release(of):
    return ctypes.CFUNCTYPE(None, ctypes.POINTER(of))


def step(result):
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(result))


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.POINTER(Schema)),
    ("release", release(Schema)),
    ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.POINTER(Array)),
    ("release", release(Array)),
    ("private_data", ctypes.c_void_p),
]
WORDS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Stream))
Stream._fields_ = [
    ("get_schema", step(Schema)),
    ("get_next", step(Array)),
    ("get_last_error", WORDS),
    ("release", release(Stream)),
    ("private_data", ctypes.c_void_p),
]


class ByHand:
    """An array of these buffers, each bytes or None; counts how often it was released."""

    def __init__(self, format, length, buffers, *, nulls=-1, offset=0, dictionary=None):
        self.format, self.released, self.dictionary = format, 0, dictionary
        self.memory = [None if each is None else ctypes.create_string_buffer(each, len(each) + 1) for each in buffers]
        addresses = [None if each is None else ctypes.addressof(each) for each in self.memory]
        self.buffers = (ctypes.c_void_p * len(buffers))(*addresses)
        self.shape = (length, nulls, offset)

        def released(of):
            self.released += 1
            of.contents.release = type(of.contents.release)()

        self.callbacks = release(Schema)(lambda of: None), release(Array)(released)

    def schema(self):
        schema = Schema(format=self.format.encode(), name=b"", flags=2, release=self.callbacks[0])
        if self.dictionary is not None:
            self.kept_schema = self.dictionary.schema()
            schema.dictionary = ctypes.pointer(self.kept_schema)
        return schema

    def array(self):
        length, nulls, offset = self.shape
        array = Array(
            length=length,
            null_count=nulls,
            offset=offset,
            n_buffers=len(self.buffers),
            buffers=ctypes.cast(self.buffers, ctypes.POINTER(ctypes.c_void_p)),
            release=self.callbacks[1],
        )
        if self.dictionary is not None:
            self.kept_array = self.dictionary.array()
            array.dictionary = ctypes.pointer(self.kept_array)
        return array

    def __arrow_c_array__(self, requested_schema=None):
        self.structs = self.schema(), self.array()
        schema, array = map(ctypes.addressof, self.structs)
        return NEW(schema, b"arrow_schema", None), NEW(array, b"arrow_array", None)


class StreamByHand:
    """A stream of arrays, which fails at its end if it has words for that."""

    def __init__(self, arrays, words=None):
        self.arrays, self.words, self.released = arrays, words, 0
        rest = iter(arrays)

        def schema(_, place):
            place[0] = arrays[0].schema()
            return 0

        def next_array(_, place):
            array = next(rest, None)
            place[0] = array.array() if array else Array()
            return 22 if array is None and words else 0

        def released(of):
            self.released += 1
            of.contents.release = type(of.contents.release)()

        self.text = ctypes.create_string_buffer(words or b"")
        self.stream = Stream(
            get_schema=step(Schema)(schema),
            get_next=step(Array)(next_array),
            get_last_error=WORDS(lambda _: ctypes.addressof(self.text)),
            release=release(Stream)(released),
        )

    def __arrow_c_stream__(self, requested_schema=None):
        return NEW(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def offsets(*numbers, code="i"):
    return struct.pack(f"<{len(numbers)}{code}", *numbers)


def strings(*items, **options):
    """An array of strings that is as it should be."""
    ends = [0]
    for item in items:
        ends.append(ends[-1] + len(item))
    return ByHand("u", len(items), [None, offsets(*ends), b"".join(items)], **options)


def view(text, buffer=0, start=0):
    if len(text) <= 12:
        return struct.pack("<i12s", len(text), text)
    return struct.pack("<i4sii", len(text), text[:4], buffer, start)
