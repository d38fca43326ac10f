# SPDX-License-Identifier: Apache-2.0
"""One run of Bochs: builds the machine, passes on what the guest's command prints, ends it.

The guest talks through serial ports, whose far ends are files that we follow: the kernel's console,
the command's standard output and standard error, and its exit status. Bochs' clock counts
instructions (so many a second) and not time, so a guest that waits costs nothing.
"""
import pathlib
import subprocess
import sys
import time

import pvh
from common import GuestDied, GuestLate, show

INSTRUCTIONS_PER_S = 50_000_000
POLL_S = 0.05
STOP_S = 2
CONSOLE_LINES = 20
PORTS = ("console", "out", "err", "status")  # ttyS0 to ttyS3
# Bochs 2.7 tells a wrong size of compacted XSAVE areas, and Linux would then turn XSAVE off, and
# with it AVX and AVX-512: hence noxsaves and clearcpuid=xsavec. The rest makes booting shorter: no
# hardware to look for, no self-tests, no tracing.
SLOW_STARTERS = ("ftrace_check_for_weak_functions", "trace_eval_init", "tracer_init_tracefs",
                 "init_kprobe_trace", "load_system_certificate_list", "bpf_prog_test_run_init")
KERNEL_ARGS = ("console=ttyS0,115200 quiet panic=-1 nokaslr mitigations=off 8250.nr_uarts=4 "
               "noxsaves clearcpuid=xsavec acpi=off noapic nolapic pci=off cryptomgr.notests "
               f"tsc=reliable tsc_early_khz={INSTRUCTIONS_PER_S // 1000} "
               f"initcall_blacklist={','.join(SLOW_STARTERS)}")


def build_rom(work, image):
    symbols = {"start_info": pvh.BASE, "image_end": image.end, "entry": image.entry}
    defined = [word for name, value in symbols.items()
               for word in ("--defsym", f"{name}={value:#x}")]
    source = pathlib.Path(__file__).with_name("boot.S")
    subprocess.run(["as", "--32", *defined, "-o", "rom.o", source], cwd=work, check=True)
    # By the addresses of the copy below 1 MiB, which protected mode uses.
    subprocess.run(["ld", "-m", "elf_i386", "-Ttext=0xf0000", "-e", "0xfff00", "--oformat", "binary",
                    "-o", "rom.img", "rom.o"], cwd=work, check=True)


class Bochs:
    """A guest that has been started; stop() must follow, whatever happens."""

    def __init__(self, options, vmlinux, ram_disk, work):
        self.options = options
        self.work = pathlib.Path(work)
        self.shown = {}  # of the ports' files, in bytes
        image = pvh.Image(vmlinux, ram_disk, " ".join([KERNEL_ARGS, *options.kernel_arg]),
                          options.memory << 20)
        image.write(self.work / "ram.img")
        build_rom(self.work, image)
        (self.work / "vga.img").write_bytes(bytes(512))  # never run, but Bochs wants one
        (self.work / "bochsrc").write_text(self.configuration(), encoding="ascii")
        (self.work / "go").write_text("continue\n", encoding="ascii")  # for its debugger
        for name in PORTS:
            (self.work / name).touch()
        self.screen = open(self.work / "screen", "w+", encoding="utf-8", errors="replace")
        # setpriv: it must not outlive us, whatever ends us. A session of its own: ^C is for us.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "env", "TERM=linux", "bochs-bin", "-q", "-f",
             "bochsrc", "-rc", "go"], cwd=self.work, stdin=subprocess.DEVNULL, stdout=self.screen,
            stderr=self.screen, start_new_session=True)

    def configuration(self):
        lines = ["display_library: term, options=hideIPS",
                 "romimage: file=rom.img, address=0xffff0000",
                 "vgaromimage: file=vga.img",
                 f"optramimage1: file=ram.img, address={pvh.BASE:#x}",
                 f"megs: {self.options.memory}",
                 f"cpu: model={self.options.cpu}, count=1, ips={INSTRUCTIONS_PER_S}, "
                 "reset_on_triple_fault=0",
                 "pci: enabled=0", "clock: sync=none", "boot: disk",
                 "sound: waveoutdrv=dummy", "log: log", "panic: action=fatal"]
        lines += [f"com{i + 1}: enabled=1, mode=file, dev={name}" for i, name in enumerate(PORTS)]
        return "\n".join(lines) + "\n"

    def run(self):
        """Until the command has ended: its exit status. Raises GuestDied, GuestLate."""
        deadline = time.monotonic() + self.options.timeout
        while True:
            is_over = self.process.poll() is not None
            self.pass_on()
            status = self.text("status").split()
            if status and status[-1] == "done":
                self.pass_on(is_end=True)
                return int(status[0])
            if is_over:
                self.pass_on(is_end=True)
                raise GuestDied("the guest died")
            if time.monotonic() > deadline:
                raise GuestLate("the guest did not end in time")
            time.sleep(POLL_S)

    def pass_on(self, is_end=False):
        self.follow("out", sys.stdout, is_end)
        self.follow("err", sys.stderr, is_end)
        if self.options.verbose:
            self.follow("console", sys.stderr, is_end)

    def follow(self, name, stream, is_end):
        """In whole lines, so that two streams on one terminal stay readable."""
        with open(self.work / name, "rb") as file:
            file.seek(self.shown.get(name, 0))
            data = file.read()
        if not is_end:
            data = data[:data.rfind(b"\n") + 1]
        self.shown[name] = self.shown.get(name, 0) + len(data)
        show(stream, data)

    def text(self, name):
        return (self.work / name).read_text(errors="replace")

    def last_words(self):
        """The ends of the console and of what Bochs has to say."""
        wrong = [line for line in self.text("log").splitlines() if "e[" in line or "p[" in line] \
            if (self.work / "log").exists() else []
        return "\n".join([*wrong[-5:], *self.text("console").splitlines()[-CONSOLE_LINES:]])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.screen.close()
