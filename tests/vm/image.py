# SPDX-License-Identifier: Apache-2.0
"""A guest's initramfs: busybox, kernel modules and init, as a cpio archive ("newc" format).

It only has to reach the host's root file system, where everything else is, so it takes no more
than a few milliseconds to make and is made anew for each guest.
"""
import pathlib
import shutil
import stat
import struct

from kernel import Missing

FOLDERS = ("bin", "dev", "proc", "sys", "modules", "host", "ram", "root")
PT_INTERP = 3


def is_static(program):
    """Does this x86-64 ELF file do without a loader of shared libraries?"""
    table, = struct.unpack_from("<Q", program, 32)
    entry_bytes, count = struct.unpack_from("<HH", program, 54)
    return all(struct.unpack_from("<I", program, table + i * entry_bytes)[0] != PT_INTERP
               for i in range(count))


def static_busybox():
    path = shutil.which("busybox")
    content = pathlib.Path(path).read_bytes()
    if not is_static(content):
        raise Missing(f"{path} needs shared libraries: apt-get install busybox-static")
    return content


class Archive:
    def __init__(self):
        self.parts = []
        self.count = 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        """One entry; its header is 13 numbers of 8 hex digits, padded so that data starts at 4n."""
        self.count += 1
        path = name.encode() + b"\0"
        numbers = (self.count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        header = b"070701" + b"".join(b"%08x" % number for number in numbers) + path
        for piece in (header, content):
            self.parts += [piece, b"\0" * (-len(piece) % 4)]

    def add_file(self, name, content, permissions=0o644):
        self.add(name, stat.S_IFREG | permissions, content)

    def add_folder(self, name):
        self.add(name, stat.S_IFDIR | 0o755)

    def add_device(self, name, major, minor):
        self.add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def finish(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)


def build(init, modules, settings):
    """The archive's bytes. modules: (name, content) in loading order; settings: shell assignments."""
    archive = Archive()
    for folder in FOLDERS:
        archive.add_folder(folder)
    archive.add_file("bin/busybox", static_busybox(), 0o755)
    for name, content in modules:
        archive.add_file(f"modules/{name}", content)
    archive.add_file("modules/order", "".join(f"{name}\n" for name, _ in modules).encode())
    archive.add_file("settings", settings.encode())
    archive.add_file("init", init, 0o755)
    return archive.finish()
