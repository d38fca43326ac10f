# SPDX-License-Identifier: Apache-2.0
"""One run of QEMU: starts it, passes on what the guest's command prints, ends it.

The guest talks through three virtio ports, whose far ends are pipes of ours: the command's standard
output, its standard error, and a line each for "ready" and the exit status. Kernel messages go to
the console, which is a file, so that they never mix with what the command prints.
"""
import os
import pathlib
import selectors
import shutil
import subprocess
import sys
import time

from kernel import Missing

PORT_OUT, PORT_ERR, PORT_STATUS = 1, 2, 3  # guest/start knows them by these numbers
KERNEL_ARGS = ("console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off "
               "random.trust_cpu=on tsc=reliable")
GRACE_S = 30  # beyond the command's time-out, for the guest to report what hung
CHUNK_BYTES = 1 << 16
CONSOLE_LINES = 30


class GuestDied(Exception):
    """The guest ended, or went silent, without an exit status of the command."""


class GuestLate(GuestDied):
    """The guest gave no sign of life by its deadline."""


def find_qemu():
    path = shutil.which("qemu-system-x86_64")
    if not path:
        raise Missing("qemu-system-x86_64 is missing: apt-get install qemu-system-x86")
    return path


class Machine:
    def __init__(self, options, kernel_image, archive, work):
        self.options = options
        self.console = pathlib.Path(work, "console")
        initrd = pathlib.Path(work, "initramfs")
        initrd.write_bytes(archive)
        self.selector = selectors.DefaultSelector()
        self.status_text = b""
        self.shown_bytes = 0
        command = self.command_line(kernel_image, initrd)
        write_ends = []
        for port in (PORT_OUT, PORT_ERR, PORT_STATUS):
            read_end, write_end = os.pipe()
            self.selector.register(read_end, selectors.EVENT_READ, port)
            write_ends.append(write_end)
            command += ["-add-fd", f"fd={write_end},set={port}",
                        "-chardev", f"file,id=c{port},path=/dev/fdset/{port},append=on",
                        "-device", f"virtserialport,chardev=c{port},nr={port},name=p{port}"]
        # setpriv: QEMU must not outlive us, whatever ends us. Its own session: ^C is for us.
        self.log = open(pathlib.Path(work, "qemu"), "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                        stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, pass_fds=write_ends,
                                        start_new_session=True)
        for write_end in write_ends:
            os.close(write_end)

    def command_line(self, kernel_image, initrd):
        options = self.options
        command = [
            find_qemu(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35,hpet=off", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off",
            "-smp", str(options.cpus), "-m", str(options.memory),
            "-kernel", str(kernel_image), "-initrd", str(initrd),
            "-append", " ".join([KERNEL_ARGS, *options.kernel_arg]),
            "-serial", f"file:{self.console}", "-device", "virtio-serial-pci",
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
        if options.out:
            command += ["-fsdev", f"local,id=out,path={options.out},security_model=none",
                        "-device", "virtio-9p-pci,fsdev=out,mount_tag=out"]
        return command

    def run(self):
        """Until the command has ended: its exit status. Raises GuestDied."""
        deadline = time.monotonic() + self.options.boot_timeout
        booted = False
        while True:
            if time.monotonic() > deadline:
                raise GuestLate("the guest did not " + ("answer" if booted else "boot") + " in time")
            if not self.pass_on(timeout_s=0.5):
                raise GuestDied("the guest died")
            lines = self.status_text.split(b"\n")[:-1]
            if lines and not booted:
                booted = True
                deadline = time.monotonic() + self.options.timeout + GRACE_S
            if lines and lines[-1].isdigit():
                while self.pass_on(timeout_s=0):  # what arrived before the status did
                    pass
                return int(lines[-1])

    def pass_on(self, timeout_s):
        """Copies what is there; false when there was nothing to copy, and with a time-out > 0
        only when there never will be."""
        events = self.selector.select(timeout_s)
        if self.options.verbose:
            self.show_console()
        for key, _ in events:
            data = os.read(key.fd, CHUNK_BYTES)
            if not data:
                self.selector.unregister(key.fd)
                os.close(key.fd)
            elif key.data == PORT_STATUS:
                self.status_text += data
            else:
                stream = sys.stdout if key.data == PORT_OUT else sys.stderr
                stream.buffer.write(data)
                stream.buffer.flush()
        if timeout_s == 0:
            return bool(events)
        return bool(self.selector.get_map())

    def show_console(self):
        if not self.console.exists():
            return
        with open(self.console, "rb") as console:
            console.seek(self.shown_bytes)
            text = console.read()
        self.shown_bytes += len(text)
        sys.stderr.buffer.write(text)
        sys.stderr.buffer.flush()

    def last_words(self):
        """QEMU's own messages and the end of the console."""
        self.log.seek(0)
        console = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join([self.log.read().strip(), *console.splitlines()[-CONSOLE_LINES:]]).strip()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
