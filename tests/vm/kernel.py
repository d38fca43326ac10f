# SPDX-License-Identifier: Apache-2.0
"""A guest's kernel: Debian's package, unpacked once into the cache, and its modules."""
import fcntl
import lzma
import pathlib
import shutil
import subprocess
import tempfile

# The one dependency of a meta package names the real package.
META_PACKAGE = "linux-image-amd64"
CLOUD_META_PACKAGE = "linux-image-cloud-amd64"  # smaller, and boots fastest
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


def real_package(meta_package):
    """The package that the meta package stands for."""
    try:
        listing = command_output(["apt-cache", "depends", meta_package])
    except Missing:  # a fresh machine has no package lists
        update_lists()
        listing = command_output(["apt-cache", "depends", meta_package])
    for line in listing.splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith("linux-image-"):
            return name
    raise Missing(f"apt knows no kernel behind {meta_package}")


def download(package, folder):
    """Leaves the package's file in the folder; root's apt must not drop to a user who can't write."""
    command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package]
    try:
        command_output(command, cwd=folder)
    except Missing:  # old lists name a file that the mirror has replaced since
        update_lists()
        command_output(command, cwd=folder)
    return next(folder.glob("*.deb"))


def fill(cache, name, meta_package, arrange, log):
    """Makes the folder cache/name of the package's content, all or nothing."""
    package = real_package(meta_package)
    log(f"fetching {package} into {cache}")
    with tempfile.TemporaryDirectory(dir=cache, prefix="new.") as scratch:
        folder = pathlib.Path(scratch)
        tree = folder / "tree"
        command_output(["dpkg-deb", "-x", download(package, folder), tree])
        arrange(tree)
        tree.rename(cache / name)


def fetch(cache, name, meta_package, arrange, log):
    """The folder cache/name; filled on first use, by one process while others wait for it."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / name).exists():
            fill(cache, name, meta_package, arrange, log)
    return cache / name


def arrange_modules(tree):
    """Leaves boot/ and lib/modules/, with what lists them."""
    if not (tree / "lib").exists():  # where /usr is merged
        (tree / "usr/lib").rename(tree / "lib")
    release = next((tree / "lib/modules").iterdir()).name
    for path in DIR_UNUSED:
        shutil.rmtree(tree / "lib/modules" / release / "kernel" / path, ignore_errors=True)
    command_output(["depmod", "-b", tree, release])


class Kernel:
    """The cached kernel with its modules."""

    def __init__(self, cache, log):
        folder = fetch(cache, "kernel", META_PACKAGE, arrange_modules, log)
        self.image = next((folder / "boot").glob("vmlinuz-*"))
        self.folder = next((folder / "lib/modules").iterdir())
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
