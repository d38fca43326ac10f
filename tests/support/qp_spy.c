/* SPDX-License-Identifier: Apache-2.0 */
/* To be loaded before a program (LD_PRELOAD): says on standard error what each queue pair has, by
 * the device's own word, once it is ready to send. */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

static void tell(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr,
			 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MTU | IBV_QP_AV,
			 &init) != 0)
		return;
	fprintf(stderr, "qp: timeout %u retry %u rnr_retry %u rnr_timer %u mtu %u class %u\n",
		attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer,
		128u << attr.path_mtu, attr.ah_attr.grh.traffic_class);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	static int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int code;

	if (real == NULL)
		*(void **)&real = dlvsym(RTLD_NEXT, "ibv_modify_qp", "IBVERBS_1.1");
	if (real == NULL)
		abort();
	code = real(qp, attr, attr_mask);
	if (code == 0 && (attr_mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTS)
		tell(qp);
	return code;
}
