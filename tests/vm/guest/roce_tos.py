#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: roce_tos.py INTERFACE SECONDS

Prints the traffic classes (TOS bytes) of the RoCE v2 packets that the interface sends, a line each with
their number, once standard input has ended, or after SECONDS."""
import collections
import select
import socket
import sys
import time

PACKET_OUTGOING = 4
ROCE_V2_PORT = 4791

interface, seconds = sys.argv[1], float(sys.argv[2])
link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))  # ETH_P_ALL
link.bind((interface, 3))
link.setblocking(False)
print("ready", flush=True)
seen = collections.Counter()
end = time.monotonic() + seconds
while (left := end - time.monotonic()) > 0:
    ready, _, _ = select.select([link, sys.stdin], [], [], left)
    while link in ready:
        try:
            packet, address = link.recvfrom(64)
        except BlockingIOError:
            break
        header = (packet[0] & 15) * 4
        port = int.from_bytes(packet[header + 2:header + 4], "big")
        if address[2] == PACKET_OUTGOING and packet[0] >> 4 == 4 and packet[9] == 17 and port == ROCE_V2_PORT:
            seen[packet[1]] += 1
    if sys.stdin in ready:
        break
for tos, count in sorted(seen.items()):
    print(tos, count)
