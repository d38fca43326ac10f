# SPDX-License-Identifier: Apache-2.0
"""One run of QEMU: starts it, passes on what the guest's command prints, ends it.

The guest talks through three virtio ports, whose far ends are pipes of ours: the command's standard
output, its standard error, and a line each for "ready" and the exit status. Kernel messages go to
the console, which is a file, so that they never mix with what the command prints.
"""
import os
import pathlib
import selectors
import subprocess
import sys
import time

from common import GuestDied, GuestLate, show

PORT_OUT, PORT_ERR, PORT_STATUS = 1, 2, 3  # guest/start knows them by these numbers
# tsc: each look at any other clock is a trap into QEMU, and the kernel would distrust this one.
KERNEL_ARGS = ("console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off "
               "random.trust_cpu=on tsc=reliable")
GRACE_S = 60  # beyond the command's time-out, for the guest to report what hangs
STOP_S = 5
POLL_S = 0.5
CHUNK_BYTES = 1 << 16
CONSOLE_LINES = 30


class Machine:
    """A guest that has been started; stop() must follow, whatever happens."""

    def __init__(self, options, kernel_image, archive, work):
        self.options = options
        self.console = pathlib.Path(work, "console")
        self.shown_bytes = 0  # of the console
        self.status = b""
        self.selector = selectors.DefaultSelector()
        initrd = pathlib.Path(work, "initramfs")
        initrd.write_bytes(archive)
        command = self.command_line(kernel_image, initrd)
        write_ends = []
        for port in (PORT_OUT, PORT_ERR, PORT_STATUS):
            read_end, write_end = os.pipe()
            write_ends.append(write_end)
            self.selector.register(read_end, selectors.EVENT_READ, port)
            # append: else QEMU would truncate what it opens, which a pipe refuses
            command += ["-add-fd", f"fd={write_end},set={port}",
                        "-chardev", f"file,id=c{port},path=/dev/fdset/{port},append=on",
                        "-device", f"virtserialport,chardev=c{port},nr={port},name=p{port}"]
        self.log = open(pathlib.Path(work, "qemu"), "w+", encoding="utf-8", errors="replace")
        # setpriv: it must not outlive us, whatever ends us. A session of its own: ^C is for us.
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                        stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, pass_fds=write_ends,
                                        start_new_session=True)
        for write_end in write_ends:
            os.close(write_end)

    def command_line(self, kernel_image, initrd):
        options = self.options
        command = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-machine", "q35,hpet=off", "-accel", "tcg,thread=multi",
            "-cpu", "max,la57=off", "-smp", str(options.cpus), "-m", str(options.memory),
            "-kernel", str(kernel_image), "-initrd", str(initrd),
            "-append", " ".join([KERNEL_ARGS, *options.kernel_arg]),
            "-serial", f"file:{self.console}", "-device", "virtio-serial-pci",
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
        if options.icount:
            # Processors take turns then, far too long ones for two that wait for each other.
            command[command.index("tcg,thread=multi")] = "tcg,thread=single"
            command += ["-icount", f"shift={options.icount}"]
        if options.out:
            command += ["-fsdev", f"local,id=out,path={options.out},security_model=none",
                        "-device", "virtio-9p-pci,fsdev=out,mount_tag=out"]
        return command

    def run(self):
        """Until the command has ended: its exit status. Raises GuestDied, GuestLate."""
        deadline = time.monotonic() + self.options.boot_timeout
        ready = False
        while self.selector.get_map():
            self.pass_on(POLL_S)
            lines = self.status.split(b"\n")[:-1]
            if lines and lines[-1].isdigit():
                while self.pass_on(0):  # what was sent before the status, on other ports
                    pass
                return int(lines[-1])
            if lines and not ready:
                ready = True
                deadline = time.monotonic() + self.options.timeout + GRACE_S
            if time.monotonic() > deadline:
                raise GuestLate(f"the guest did not {'end' if ready else 'boot'} in time")
        raise GuestDied("the guest died")

    def pass_on(self, timeout_s):
        """Copies what the ports have, waiting for it for so long: whether there was anything."""
        events = self.selector.select(timeout_s)
        for key, _ in events:
            data = os.read(key.fd, CHUNK_BYTES)
            if not data:
                self.selector.unregister(key.fd)
                os.close(key.fd)
            elif key.data == PORT_STATUS:
                self.status += data
            else:
                show(sys.stdout if key.data == PORT_OUT else sys.stderr, data)
        if self.options.verbose:
            self.show_console()
        return bool(events)

    def show_console(self):
        if self.console.exists():
            with open(self.console, "rb") as console:
                console.seek(self.shown_bytes)
                data = console.read()
            self.shown_bytes += len(data)
            show(sys.stderr, data)

    def last_words(self):
        """QEMU's own messages and the end of the console."""
        self.log.seek(0)
        console = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join([*self.log.read().splitlines(), *console.splitlines()[-CONSOLE_LINES:]])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
