#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The suite that every fabric provider has to pass, over verbs, server and client on the two ends of
# the pair; and the engine's own tests on top of it.
. "$RMEM_VM/lib.sh"
set -eu

export CK_TIMEOUT_MULTIPLIER=5 # emulated, and with company
export RMEM_TEST_VERBS=$A
[ ! -x "$RMEM_BUILD/tests/unit/test_auth" ] || "$RMEM_BUILD/tests/unit/test_auth"
"$RMEM_BUILD/tests/unit/test_fabric_conformance"
"$RMEM_BUILD/tests/unit/test_fabric_notices"
"$RMEM_BUILD/tests/unit/test_fabric_queues"
"$RMEM_BUILD/tests/unit/test_fabric_errors"
"$RMEM_BUILD/tests/unit/test_engine"
"$RMEM_BUILD/tests/unit/test_notices"
