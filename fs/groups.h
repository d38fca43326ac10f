/* SPDX-License-Identifier: Apache-2.0 */
/* The supplementary groups of the process that makes a request: the kernel's message has only its
 * first group. They stand in /proc/PID/status, on a line of any length. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* False also when the process is gone, or isn't visible here (another PID namespace). */
bool groups_of_process_have(pid_t pid, gid_t gid);

/* The same, of the text of such a file. */
bool groups_in_status_have(FILE *status, gid_t gid);
