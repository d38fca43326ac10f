# SPDX-License-Identifier: Apache-2.0
"""The guest's kernel: Debian's package, unpacked once into the cache, and its modules."""
import fcntl
import lzma
import pathlib
import shutil
import subprocess
import tempfile

META_PACKAGE = "linux-image-amd64"  # its one dependency names the real package
DIR_UNUSED = ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless")  # half of the bytes


class Missing(Exception):
    """What this machine lacks for a guest, and how to get it."""


def command_output(command, **options):
    """What a command prints; when it fails, its last words are the text of Missing."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              **options)
    except FileNotFoundError:
        raise Missing(f"{command[0]} is missing: Debian's tools fetch the guest's kernel") from None
    if done.returncode != 0:
        last_words = " / ".join(done.stdout.strip().splitlines()[-3:])
        raise Missing(f"`{' '.join(map(str, command[:3]))}` failed: {last_words}")
    return done.stdout


def update_lists():
    command_output(["apt-get", "update", "-q"])


def real_package():
    """The package that the meta package stands for."""
    try:
        listing = command_output(["apt-cache", "depends", META_PACKAGE])
    except Missing:  # a fresh machine has no package lists
        update_lists()
        listing = command_output(["apt-cache", "depends", META_PACKAGE])
    for line in listing.splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith("linux-image-"):
            return name
    raise Missing(f"apt knows no kernel behind {META_PACKAGE}")


def download(package, folder):
    """Leaves the package's file in the folder; root's apt must not drop to a user who can't write."""
    command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package]
    try:
        command_output(command, cwd=folder)
    except Missing:  # old lists name a file that the mirror has replaced since
        update_lists()
        command_output(command, cwd=folder)
    return next(folder.glob("*.deb"))


def fill(cache, log):
    """Puts boot/ and lib/modules/ below cache/kernel, all or nothing."""
    package = real_package()
    log(f"fetching {package} into {cache}")
    with tempfile.TemporaryDirectory(dir=cache, prefix="new.") as scratch:
        folder = pathlib.Path(scratch)
        tree = folder / "tree"
        command_output(["dpkg-deb", "-x", download(package, folder), tree])
        if not (tree / "lib").exists():  # where /usr is merged
            (tree / "usr/lib").rename(tree / "lib")
        release = next((tree / "lib/modules").iterdir()).name
        for path in DIR_UNUSED:
            shutil.rmtree(tree / "lib/modules" / release / "kernel" / path, ignore_errors=True)
        command_output(["depmod", "-b", tree, release])
        tree.rename(cache / "kernel")


class Kernel:
    """The cached kernel; fetched on first use, by one process while others wait for it."""

    def __init__(self, cache, log):
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (cache / "kernel").exists():
                fill(cache, log)
        self.image = next((cache / "kernel/boot").glob("vmlinuz-*"))
        self.folder = next((cache / "kernel/lib/modules").iterdir())
        self.paths = {}  # module name -> path below the folder
        self.needs = {}  # path -> paths to load before it, nearest first
        for line in (self.folder / "modules.dep").read_text(encoding="ascii").splitlines():
            path, _, needs = line.partition(":")
            self.paths[pathlib.Path(path).name.split(".ko")[0].replace("-", "_")] = path
            self.needs[path] = needs.split()
        builtin = (self.folder / "modules.builtin").read_text(encoding="ascii").split()
        self.builtin = {pathlib.Path(path).stem.replace("-", "_") for path in builtin}

    def modules(self, names):
        """(file name, content) of the named modules and of all they need, in loading order."""
        ordered = {}
        for name in names:
            key = name.replace("-", "_")
            if key in self.builtin:
                continue
            if key not in self.paths:
                raise Missing(f"kernel {self.folder.name} has no module {name}")
            path = self.paths[key]
            ordered.update(dict.fromkeys([*reversed(self.needs[path]), path]))
        return [self.module_file(path) for path in ordered]

    def module_file(self, path):
        data = (self.folder / path).read_bytes()
        name = pathlib.Path(path).name
        return (name[:-3], lzma.decompress(data)) if name.endswith(".xz") else (name, data)
