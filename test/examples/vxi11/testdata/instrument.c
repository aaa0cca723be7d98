/* An emulated instrument for VXI-11, on libtirpc: it answers *IDN?, asks for service at SRQ, and has
 * nothing to say at WAIT, until it is aborted. */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <sys/prctl.h>
#include <rpc/rpc.h>

enum { CORE = 395183, ABORTS = 395184, INTR = 395185, END = 4 };
enum { NOT_LINKED = 4, NO_CHANNEL = 6, TIMEOUT = 15, ABORTED = 23, HAS_CHANNEL = 29 };

struct words { u_int v[6]; int n; char *data; u_int len; u_int max; };

static int aborts[2];  /* a pipe: the aborting process to the other */
static u_short abort_port;
static char answer[256], handle[40];
static u_int answer_len, handle_len, srq_on, links;
static CLIENT *callback;

/* n words, then opaque bytes if max is not 0 */
static bool_t xdr_words(XDR *x, struct words *w)
{
	for (int i = 0; i < w->n; i++)
		if (!xdr_u_int(x, &w->v[i]))
			return FALSE;
	return w->max == 0 || xdr_bytes(x, &w->data, &w->len, w->max);
}

static struct words *args(SVCXPRT *t, int n, u_int max)
{
	static struct words w;
	free(w.data);
	memset(&w, 0, sizeof w);
	w.n = n;
	w.max = max;
	if (!svc_getargs(t, (xdrproc_t)xdr_words, (caddr_t)&w)) {
		svcerr_decode(t);
		return NULL;
	}
	return &w;
}

static void reply(SVCXPRT *t, struct words w)
{
	svc_sendreply(t, (xdrproc_t)xdr_words, (caddr_t)&w);
}

#define REPLY(t, ...) reply(t, (struct words){{__VA_ARGS__}, sizeof((u_int[]){__VA_ARGS__}) / sizeof(u_int)})

static void write_message(SVCXPRT *t, struct words *w)
{
	answer_len = 0;
	if (w->len >= 5 && memcmp(w->data, "*IDN?", 5) == 0)
		answer_len = snprintf(answer, sizeof answer, "EMULATED,LIBTIRPC,0,1\n");
	if (w->len >= 3 && memcmp(w->data, "SRQ", 3) == 0 && callback && srq_on) {
		struct words h = {{0}, 0, handle, handle_len, sizeof handle};
		struct timeval none = {0, 0}; /* the call has no answer */
		clnt_call(callback, 30, (xdrproc_t)xdr_words, (caddr_t)&h, (xdrproc_t)xdr_void, NULL, none);
	}
	REPLY(t, 0, w->len);
}

static void read_message(SVCXPRT *t, struct words *w)
{
	u_int n = answer_len < w->v[1] ? answer_len : w->v[1];
	if (n == 0) {
		struct pollfd p = {aborts[0], POLLIN, 0};
		char c;
		struct words r = {{TIMEOUT, 0}, 2, NULL, 0, 1};
		if (poll(&p, 1, (int)w->v[2]) == 1 && read(aborts[0], &c, 1) == 1)
			r.v[0] = ABORTED;
		reply(t, r);
		return;
	}
	struct words r = {{0, n == answer_len ? END : 1}, 2, answer, n, sizeof answer};
	reply(t, r);
	memmove(answer, answer + n, answer_len -= n);
}

static void open_channel(SVCXPRT *t, struct words *w)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(w->v[1]), .sin_addr.s_addr = htonl(w->v[0])};
	int s = RPC_ANYSOCK;
	if (callback) {
		REPLY(t, HAS_CHANNEL);
		return;
	}
	callback = clnttcp_create(&to, w->v[2], w->v[3], &s, 0, 0);
	REPLY(t, callback ? 0 : NO_CHANNEL);
}

static void core(struct svc_req *req, SVCXPRT *t)
{
	static const struct { u_int proc, words, max; } shapes[] = {
		{10, 3, 256}, {11, 4, 1 << 20}, {12, 6, 0}, {13, 4, 0}, {15, 4, 0}, {20, 2, 40}, {23, 1, 0}, {25, 5, 0}, {26, 0, 0}};
	struct words *w = NULL;
	if (req->rq_proc == 0) {
		svc_sendreply(t, (xdrproc_t)xdr_void, NULL);
		return;
	}
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (shapes[i].proc == req->rq_proc && !(w = args(t, shapes[i].words, shapes[i].max)))
			return;
	if (!w) {
		svcerr_noproc(t);
		return;
	}
	if (req->rq_proc != 10 && req->rq_proc < 25 && (w->v[0] == 0 || w->v[0] > links)) {
		REPLY(t, NOT_LINKED, 0, 0);
		return;
	}
	switch (req->rq_proc) {
	case 10: REPLY(t, 0, ++links, abort_port, 1024); break;
	case 11: write_message(t, w); break;
	case 12: read_message(t, w); break;
	case 13: REPLY(t, 0, answer_len ? 16 : 0); break;
	case 15: answer_len = 0; REPLY(t, 0); break;
	case 20:
		srq_on = w->v[1];
		memcpy(handle, w->data, handle_len = w->len);
		REPLY(t, 0);
		break;
	case 23: REPLY(t, 0); break;
	case 25: open_channel(t, w); break;
	case 26:
		if (!callback) {
			REPLY(t, NO_CHANNEL);
			break;
		}
		clnt_destroy(callback);
		callback = NULL;
		REPLY(t, 0);
		break;
	}
}

static void aborting(struct svc_req *req, SVCXPRT *t)
{
	if (req->rq_proc != 1) {
		svcerr_noproc(t);
		return;
	}
	if (args(t, 1, 0)) {
		REPLY(t, write(aborts[1], "a", 1) == 1 ? 0 : NOT_LINKED);
	}
}

int main(void)
{
	SVCXPRT *a = svctcp_create(RPC_ANYSOCK, 0, 0);
	pid_t other;
	if (!a || pipe(aborts) || !svc_register(a, ABORTS, 1, aborting, 0))
		return 1;
	abort_port = a->xp_port;
	if ((other = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		svc_run();
		return 1;
	}
	svc_destroy(a);
	SVCXPRT *c = svctcp_create(RPC_ANYSOCK, 0, 0);
	pmap_unset(CORE, 1);
	if (!c || !svc_register(c, CORE, 1, core, IPPROTO_TCP)) {
		kill(other, SIGTERM);
		return 1;
	}
	puts("ready");
	fflush(stdout);
	svc_run();
	return 1;
}
