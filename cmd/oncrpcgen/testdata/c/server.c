/* The server by rpcgen and libtirpc: writes its port, and serves until its standard input ends. The argument
   is the transport. Over UDP it has libtirpc's cache of replies. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "peer.h"

void peer_prog_1(struct svc_req *rqstp, SVCXPRT *transp);

everything *peerproc_echo_1_svc(everything *args, struct svc_req *req)
{
	return args;
}

int *peerproc_sum_1_svc(int *args, struct svc_req *req)
{
	static int sum;
	sum = args[0] + args[1] + args[2] + args[3];
	return &sum;
}

name *peerproc_color_1_svc(color *args, struct svc_req *req)
{
	static name result;
	result = *args == RED ? "red" : *args == GREEN ? "green" : "dark";
	return &result;
}

void *peerproc_null_1_svc(void *args, struct svc_req *req)
{
	static char result;
	return &result;
}

int *peerproc_next_1_svc(void *args, struct svc_req *req)
{
	static int last;
	last++;
	return &last;
}

/* Ends the program with its standard input. */
static void *watch(void *unused)
{
	char c;
	while (read(0, &c, 1) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	int udp = strcmp(argv[1], "udp") == 0;
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof here;
	int fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
	pthread_t watcher;
	pthread_create(&watcher, NULL, watch, NULL);
	if (fd < 0 || bind(fd, (struct sockaddr *)&here, len) < 0 || (!udp && listen(fd, 10) < 0) || getsockname(fd, (struct sockaddr *)&here, &len) < 0) {
		perror("socket");
		return 1;
	}
	SVCXPRT *x = udp ? svcudp_create(fd) : svctcp_create(fd, 0, 0);
	if (x == NULL || (udp && !svc_dg_enablecache(x, 16)) || !svc_register(x, PEER_PROG, PEER_V1, peer_prog_1, 0)) {
		fprintf(stderr, "no service\n");
		return 1;
	}
	printf("%d\n", ntohs(here.sin_port));
	fflush(stdout);
	svc_run();
	return 1;
}
