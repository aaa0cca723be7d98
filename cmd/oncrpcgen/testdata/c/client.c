/* The client by rpcgen and libtirpc: decodes each line of hexadecimal as an argument of ECHO, and writes
   the result in the same form. In the end it calls the other procedures. The arguments are the port, the
   transport, and how many milliseconds later a call over UDP is sent again. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "peer.h"

static char line[1 << 20], bytes[1 << 19];

static void fail(CLIENT *c, const char *what)
{
	fprintf(stderr, "%s\n", clnt_sperror(c, what));
	exit(1);
}

static void echo(CLIENT *c)
{
	XDR in, out;
	everything args;
	size_t n = strspn(line, "0123456789abcdef") / 2;
	for (size_t i = 0; i < n; i++)
		sscanf(line + 2 * i, "%2hhx", (unsigned char *)&bytes[i]);
	memset(&args, 0, sizeof args);
	xdrmem_create(&in, bytes, n, XDR_DECODE);
	if (!xdr_everything(&in, &args) || xdr_getpos(&in) != n) {
		fprintf(stderr, "cannot decode %s", line);
		exit(1);
	}
	everything *res = peerproc_echo_1(&args, c);
	if (res == NULL)
		fail(c, "ECHO");
	xdrmem_create(&out, bytes, sizeof bytes, XDR_ENCODE);
	if (!xdr_everything(&out, res)) {
		fprintf(stderr, "cannot encode\n");
		exit(1);
	}
	for (unsigned i = 0; i < xdr_getpos(&out); i++)
		printf("%02x", (unsigned char)bytes[i]);
	printf("\n");
	clnt_freeres(c, (xdrproc_t)xdr_everything, (char *)res);
	xdr_free((xdrproc_t)xdr_everything, (char *)&args);
}

int main(int argc, char **argv)
{
	struct sockaddr_in server = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(atoi(argv[1])) };
	int fd = RPC_ANYSOCK;
	struct timeval long_time = { 600, 0 }, again = { atoi(argv[3]) / 1000, atoi(argv[3]) % 1000 * 1000 };
	CLIENT *c = strcmp(argv[2], "udp") == 0 ? clntudp_create(&server, PEER_PROG, PEER_V1, again, &fd)
	                                        : clnttcp_create(&server, PEER_PROG, PEER_V1, &fd, 0, 0);
	if (c == NULL) {
		clnt_pcreateerror("connect");
		return 1;
	}
	clnt_control(c, CLSET_TIMEOUT, (char *)&long_time);
	while (fgets(line, sizeof line, stdin))
		echo(c);
	matrix numbers = { 1, 20, 300, -4000 };
	color dark = DARK;
	int *sum = peerproc_sum_1(numbers, c);
	if (sum == NULL)
		fail(c, "SUM");
	name *text = peerproc_color_1(&dark, c);
	if (text == NULL)
		fail(c, "COLOR");
	if (peerproc_null_1(NULL, c) == NULL)
		fail(c, "NULL");
	printf("%d %s\n", *sum, *text);
	for (int i = 0; i < 3; i++) {
		int *next = peerproc_next_1(NULL, c);
		if (next == NULL)
			fail(c, "NEXT");
		printf("%d\n", *next);
	}
	return 0;
}
