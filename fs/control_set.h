/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/base/error.h"
#include "engine/base/hint.h"

/* Carries out "KEY=VALUE" of the configuration's keys engine.telemetry, log.level and log.MODULE,
 * for this process. Any thread. Errors: -EINVAL, with what can be set. */
int control_set(const char *assignment, struct rmem_error *error) RMEM_MUST_CHECK;
