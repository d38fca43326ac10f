# SPDX-License-Identifier: Apache-2.0
"""What the programs here share: exit statuses, messages, the cache, taking turns, ending well."""
import argparse
import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from kernel import Missing

HOME = pathlib.Path(__file__).resolve().parent
SOURCE = HOME.parent.parent
EXIT_SKIPPED, EXIT_LATE, EXIT_NO_GUEST = 77, 124, 125


class GuestDied(Exception):
    """The guest ended without an exit status of the command."""


class GuestLate(Exception):
    """The guest gave no sign of life by its deadline."""


def log(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def show(stream, data):
    stream.buffer.write(data)
    stream.buffer.flush()


def cache_folder():
    return pathlib.Path(os.environ.get("RMEM_VM_CACHE") or SOURCE / "build-vm-cache").resolve()


def check_needed(needed):
    """needed: commands and files, and Debian's package of each."""
    missing = [name for name in needed if not shutil.which(name) and not os.path.exists(name)]
    if missing:
        packages = " ".join(dict.fromkeys(needed[name] for name in missing))
        raise Missing(f"missing: {' '.join(missing)} (apt-get install {packages})")


@contextlib.contextmanager
def turn():
    """Two guests at once on a small machine only make each other time out."""
    path = pathlib.Path(tempfile.gettempdir(), f"rmem-vm.{os.getuid()}.lock")
    with open(path, "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log("waiting for another guest to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def follow(machine):
    """Lets a machine run to the command's end; returns its exit status, or ours."""
    try:
        return machine.run()
    except (GuestDied, GuestLate) as failure:
        log(f"{failure}; its last words:\n{machine.last_words()}")
        return EXIT_LATE if isinstance(failure, GuestLate) else EXIT_NO_GUEST
    finally:
        machine.stop()


def guarded(work):
    """Does the work; its exit status, or the one that says what is missing here."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody reads on: the guest dies with us
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    try:
        return work()
    except Missing as failure:
        in_ci = os.environ.get("CI") == "true"
        log(f"{'' if in_ci else 'skipped: '}{failure}")
        return EXIT_NO_GUEST if in_ci else EXIT_SKIPPED


def positive(text):
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def variable(text):
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, value
