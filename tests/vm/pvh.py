# SPDX-License-Identifier: Apache-2.0
"""Guest memory with a kernel in it, ready to be entered: no BIOS, no disk, no boot loader.

The kernel lies where its ELF file says, a RAM disk behind it, and what the PVH entry wants to know
(xen's public/arch-x86/hvm/start_info.h) at 1 MiB, where the image of memory begins.
"""
import gzip
import lzma
import struct

from kernel import Missing

BASE = 0x100000
BLOCK_BYTES = 0x20000  # see boot.S
LOW_MEMORY_BYTES = 0x9fc00
MODULES, MAP, COMMAND_LINE = BASE + 0x100, BASE + 0x200, BASE + 0x1000
START_MAGIC, START_VERSION, RAM = 0x336ec578, 1, 1
PT_LOAD, PT_NOTE = 1, 4
LZ4_LEGACY = b"\x02\x21\x4c\x18"
NOTE_ENTRY, NOTE_OWNER = 18, b"Xen\0"  # XEN_ELFNOTE_PHYS32_ENTRY


def unpack_lz4(data):
    """Blocks of the legacy frame: each its length and then sequences of literals and a match."""
    out = bytearray()
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], "little")
        at = unpack_lz4_block(data, at + 4, min(end, len(data)), out)
    return bytes(out)


def lz4_length(data, at, length):
    """A length of 15 goes on in bytes, up to the first that is not 255."""
    if length == 15:
        while data[at] == 255:
            length += 255
            at += 1
        length += data[at]
        at += 1
    return length, at


def unpack_lz4_block(data, at, end, out):
    while at < end:
        token = data[at]
        length, at = lz4_length(data, at + 1, token >> 4)
        out += data[at:at + length]
        at += length
        if at >= end:  # the last sequence has no match
            break
        distance = data[at] | data[at + 1] << 8
        length, at = lz4_length(data, at + 2, token & 15)
        length += 4
        start = len(out) - distance
        if distance >= length:
            out += out[start:start + length]
        else:  # it repeats itself
            out += (out[start:] * (length // distance + 1))[:length]
    return at


def unpack(bzimage):
    """The ELF file (vmlinux) within a bzImage, see Documentation/x86/boot.rst of Linux."""
    if bzimage[0x202:0x206] != b"HdrS":
        raise Missing("the guest's kernel is no bzImage")
    setup_sectors = bzimage[0x1f1] or 4
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = bzimage[start:start + length]
    if payload[:4] == b"\x7fELF":
        return payload
    if payload[:6] == b"\xfd7zXZ\0":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if payload[:2] == b"\x1f\x8b":
        return gzip.decompress(payload[:-4])  # its size follows
    if payload[:4] == LZ4_LEGACY:
        return unpack_lz4(payload[4:-4])
    raise Missing(f"the guest's kernel is compressed in a way unknown here ({payload[:4].hex()})")


def aligned(number, multiple):
    return -(-number // multiple) * multiple


def notes(data):
    """(owner, type, content) of each note."""
    at = 0
    while at + 12 <= len(data):
        name_bytes, content_bytes, kind = struct.unpack_from("<III", data, at)
        name = at + 12
        content = name + aligned(name_bytes, 4)
        yield data[name:name + name_bytes], kind, data[content:content + content_bytes]
        at = content + aligned(content_bytes, 4)


class Image:
    """Guest memory from BASE on."""

    def __init__(self, vmlinux, ram_disk, command_line, memory_bytes):
        self.parts = []  # (guest address, content)
        self.limit = memory_bytes
        self.entry = None
        self.end = BASE
        self.load_kernel(vmlinux)
        if self.entry is None:
            raise Missing("the guest's kernel has no PVH entry (CONFIG_PVH)")
        disk = aligned(self.end, 1 << 20)
        self.put(disk, ram_disk)
        self.put_start_info(disk, len(ram_disk), command_line)
        self.end = aligned(self.end, BLOCK_BYTES)

    def put(self, address, content, bytes_there=0):
        end = address + max(len(content), bytes_there)
        if address < BASE or end > self.limit:
            raise Missing("kernel and program don't fit into the guest's memory: see --memory")
        self.parts.append((address, content))
        self.end = max(self.end, end)

    def load_kernel(self, vmlinux):
        table, = struct.unpack_from("<Q", vmlinux, 32)
        entry_bytes, count = struct.unpack_from("<HH", vmlinux, 54)
        for i in range(count):
            kind, _, offset, _, address, in_file, in_memory = struct.unpack_from(
                "<IIQQQQQ", vmlinux, table + i * entry_bytes)
            content = vmlinux[offset:offset + in_file]
            if kind == PT_LOAD:
                self.put(address, content, in_memory)
            elif kind == PT_NOTE:
                for owner, number, value in notes(content):
                    if (owner, number) == (NOTE_OWNER, NOTE_ENTRY):
                        self.entry = int.from_bytes(value[:4], "little")

    def put_start_info(self, disk, disk_bytes, command_line):
        memory_map = (struct.pack("<QQII", 0, LOW_MEMORY_BYTES, RAM, 0) +
                      struct.pack("<QQII", BASE, self.limit - BASE, RAM, 0))
        self.put(BASE, struct.pack("<IIIIQQQQII", START_MAGIC, START_VERSION, 0, 1, MODULES,
                                   COMMAND_LINE, 0, MAP, 2, 0))
        self.put(MODULES, struct.pack("<QQQQ", disk, disk_bytes, 0, 0))
        self.put(MAP, memory_map)
        self.put(COMMAND_LINE, command_line.encode() + b"\0")

    def write(self, path):
        with open(path, "wb") as file:
            for address, content in self.parts:
                file.seek(address - BASE)
                file.write(content)
            file.truncate(self.end - BASE)
