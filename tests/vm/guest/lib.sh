# SPDX-License-Identifier: Apache-2.0
# What guest scripts know: . "$RMEM_VM/lib.sh"
# The link: host "a" = device rxe_a on va with address $A, host "b" = rxe_b on vb with $B.
# shellcheck shell=sh

A=10.77.0.1
B=10.77.0.2

wait_until() { # SECONDS COMMAND...: runs the command until it succeeds; fails when time is out
    wait_left=$(($1 * 20))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $wait_left -gt 0 ] || {
            echo "waited in vain for: $*" >&2
            return 1
        }
        wait_left=$((wait_left - 1))
        sleep 0.05
    done
}

gid_index() { # DEVICE ADDRESS: prints the index of the RoCE v2 GID that stands for an IPv4 address
    # shellcheck disable=SC2046 # four words are wanted
    gid_wanted=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(echo "$2" | tr . ' '))
    for gid_file in "/sys/class/infiniband/$1/ports/1/gids/"*; do
        [ "$(cat "$gid_file")" != "$gid_wanted" ] || {
            echo "${gid_file##*/}"
            return 0
        }
    done
    return 1
}

tcp_listens() { # PORT: does somebody listen there?
    ss -Hltn "sport = :$1" | grep -q .
}

# Both ends of the pair are in one namespace, where the kernel would hand packets for either
# address over inside lo, which rxe doesn't see. So the table "local" answers only for packets that
# came in through the pair; what a program here sends goes out at the other address's peer.
# One process makes all of it: under emulation a process costs more than what it does here.
pair_up() {
    ip -batch - <<END
link set lo up
link add va mtu 9000 type veth peer name vb mtu 9000
addr add $A/24 dev va
addr add $B/24 dev vb
link set va up
link set vb up
route add $B dev va src $A table 71
route add $A dev vb src $B table 72
rule add pref 1 iif va lookup local
rule add pref 2 iif vb lookup local
rule add pref 3 to $B lookup 71
rule add pref 4 to $A lookup 72
rule add pref 5 lookup local
rule del pref 0
END
}

accept_own_addresses() { # as sources of what comes in
    for if_name in all va vb; do
        echo 1 >/proc/sys/net/ipv4/conf/$if_name/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/$if_name/rp_filter
        echo 1 >/proc/sys/net/ipv4/conf/$if_name/arp_ignore
    done
}

network_up() {
    pair_up && accept_own_addresses &&
        rdma link add rxe_a type rxe netdev va && rdma link add rxe_b type rxe netdev vb &&
        wait_until 20 gid_index rxe_a $A && wait_until 20 gid_index rxe_b $B
}
