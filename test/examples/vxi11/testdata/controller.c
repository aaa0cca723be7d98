/* A controller by rpcgen and libtirpc: asks an instrument at a port of this machine, takes an interrupt on
   a connection of its own, and aborts a read. */

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "core.h"
#include "channels.h"

void vxi_intr_1(struct svc_req *req, SVCXPRT *t);

static int interrupts[2]; /* a pipe: the serving process to the other */

void *intr_srq_1_svc(srq_parms *args, struct svc_req *req)
{
	static char result;
	if (write(interrupts[1], args->handle.handle_val, args->handle.handle_len) < 0)
		_exit(1);
	return &result;
}

int *abort_device_1_svc(int *args, struct svc_req *req)
{
	return args;
}

static CLIENT *connect_to(u_short port, u_long program)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	struct timeval long_time = { 600, 0 };
	int fd = RPC_ANYSOCK;
	CLIENT *c = clnttcp_create(&to, program, 1, &fd, 0, 0);
	if (c == NULL) {
		clnt_pcreateerror("connect");
		exit(1);
	}
	clnt_control(c, CLSET_TIMEOUT, (char *)&long_time);
	return c;
}

static void *must(void *result, CLIENT *c, char *name)
{
	if (result == NULL) {
		clnt_perror(c, name);
		exit(1);
	}
	return result;
}

static void say(CLIENT *c, device_link lid, char *message)
{
	write_parms w = { lid, 1000, 0, 8, { strlen(message), message } };
	write_resp *res = must(core_write_1(&w, c), c, "write");
	printf("write %d %u\n", res->error, res->size);
}

static void hear(CLIENT *c, device_link lid, u_int most)
{
	read_parms r = { lid, most, 600000, 0, 0, 0 };
	read_resp *res = must(core_read_1(&r, c), c, "read");
	printf("read %d %d %.*s\n", res->error, res->reason, (int)res->data.data_len, res->data.data_val);
}

int main(int argc, char **argv)
{
	SVCXPRT *x = svctcp_create(RPC_ANYSOCK, 0, 0);
	if (x == NULL || pipe(interrupts) || !svc_register(x, VXI_INTR, INTR_V1, vxi_intr_1, 0))
		return 1;
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		svc_run();
		return 1;
	}
	CLIENT *c = connect_to(atoi(argv[1]), VXI_CORE);
	create_link_parms parms = { 1, FALSE, 0, "inst0" };
	create_link_resp *made = must(core_create_link_1(&parms, c), c, "link");
	device_link lid = made->lid;
	CLIENT *a = connect_to(made->abort_port, VXI_ABORT);
	say(c, lid, "*IDN?\n");
	hear(c, lid, 9);
	hear(c, lid, 100);

	remote_func here = { INADDR_LOOPBACK, x->xp_port, VXI_INTR, INTR_V1, DEVICE_TCP };
	enable_srq_parms on = { lid, TRUE, { 6, "handle" } };
	printf("channel %d\n", *(int *)must(core_create_intr_chan_1(&here, c), c, "channel"));
	printf("enable %d\n", *(int *)must(core_enable_srq_1(&on, c), c, "enable"));
	say(c, lid, "SRQ\n");
	char handle[40] = "";
	if (read(interrupts[0], handle, 39) > 0)
		printf("interrupt %s\n", handle);
	printf("no channel %d\n", *(int *)must(core_destroy_intr_chan_1(NULL, c), c, "no channel"));
	printf("abort %d\n", *(int *)must(abort_device_1(&lid, a), a, "abort"));
	hear(c, lid, 100);
	printf("destroy %d\n", *(int *)must(core_destroy_link_1(&lid, c), c, "destroy"));
	hear(c, lid, 100);
	return 0;
}
