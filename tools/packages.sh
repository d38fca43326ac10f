# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Which Debian packages the project needs, and how to tell that they are there. To be sourced.
#
# A row: the package, and a command, a pkg-config module, a header or a file that comes with it. Asking for these, and
# not for the package, works on other distributions, too.

packages_to_build='
gcc             command gcc
meson           command meson
ninja-build     command ninja
pkg-config      command pkg-config
libfuse3-dev    module  fuse3
libconfig-dev   module  libconfig
liblmdb-dev     module  lmdb
libibverbs-dev  module  libibverbs
librdmacm-dev   module  librdmacm
libsodium-dev   module  libsodium
uthash-dev      header  uthash.h
'
packages_to_run='
fuse3           command fusermount3
mount           command mount
'
packages_to_test='
acl             command getfacl
attr            command setfattr
binutils        command objdump
bochs           command bochs-bin
bochs-term      file    /usr/lib/x86_64-linux-gnu/bochs/plugins/libbx_term_gui.so
busybox-static  command busybox
check           module  check
clang           command clang
fio             command fio
gcc-aarch64-linux-gnu command aarch64-linux-gnu-gcc
libc6-dev-arm64-cross file /usr/aarch64-linux-gnu/lib/crti.o
git             command git
gnuplot-nox     command gnuplot
ibverbs-utils   command ibv_rc_pingpong
iproute2        command rdma
kmod            command depmod
make            command make
perftest        command ib_write_lat
qemu-system-x86 command qemu-system-x86_64
qemu-user       command qemu-aarch64
rdmacm-utils    command rping
rsync           command rsync
sqlite3         command sqlite3
util-linux      command setpriv
valgrind        command valgrind
'

# packages_missing ROWS...: prints the packages that are not there.
packages_missing() {
    local package kind name
    while read -r package kind name; do
        case $kind in
        command) command -v "$name" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$name" \
            >/dev/null || echo "$package" ;;
        file) [ -e "$name" ] || echo "$package" ;;
        header) echo "#include <$name>" | cc -E - >/dev/null 2>&1 || echo "$package" ;;
        module) pkg-config --exists "$name" 2>/dev/null || echo "$package" ;;
        esac
    done <<<"$*"
}

# packages_install ROWS...: gets what is missing, when this is Debian and we are root; otherwise says
# what it is and fails.
packages_install() {
    local missing
    missing=$(packages_missing "$@" | paste -sd' ')
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing (by the names of Debian's packages): $missing" >&2
        echo "install them, for example: sudo apt-get install $missing" >&2
        return 1
    fi
    echo "installing $missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    if ! { apt-get -q update && apt-get -qy install --no-install-recommends $missing; } >&2 </dev/null
    then
        echo "apt-get could not install: $missing" >&2
        return 1
    fi
    missing=$(packages_missing "$@" | paste -sd' ')
    [ -z "$missing" ] || {
        echo "installed, and still not to be found: $missing" >&2
        return 1
    }
}
