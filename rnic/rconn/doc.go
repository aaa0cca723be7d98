// Package documentation: purpose and use.

// Package rconn provides net.Conn and net.Listener over RDMA: programs written for TCP run over
// iWARP or RoCE without changes to their protocol.
//
//	l, err := rconn.Listen("iwarp", "127.0.0.1:0", nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	go http.Serve(l, http.NotFoundHandler())
//
//	client := http.Client{Transport: &http.Transport{
//		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
//			return rconn.Dial(ctx, "iwarp", addr, nil)
//		},
//	}}
//	response, err := client.Get("http://" + l.Addr().String())
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer response.Body.Close()
//
// The network is the provider's name. The program imports the provider's package, rnic/iwarp or
// rnic/roce. test/examples/web in this module is a complete program.
//
// A Conn has the methods of a TCP connection: deadlines, CloseWrite, and errors in a *net.OpError
// that wraps os.ErrDeadlineExceeded, net.ErrClosed, syscall.ECONNRESET or syscall.EPIPE. io.Copy
// from a Conn makes no copy of its own. Nothing is encrypted: use crypto/tls over a Conn.
//
// Close differs from TCP's: it waits until the peer has all written bytes, at most for
// Config.Linger. Bytes that came before the peer's Close, or before the connection broke, are read
// first. Then Read returns io.EOF or the reason.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package rconn

// # The protocol
//
// Each side has memory, its ring, and describes it in the private data at connection set-up
// (wire.go). A Write puts its bytes into the peer's ring by RDMA Writes, each followed by a Send
// with 16 bytes: their number, and how much the writer has read from its own ring. RoCE has
// Immediate Data instead. Receives are counted like bytes. A side sends an update when half its
// ring, or half its receives, are free again and not announced (flow.go).
//
// A small Write is copied to the stage, a large one stays in the caller's memory. Pieces are posted
// as far as the peer's ring has room. The peer's handler records the bytes and wakes a Read, which
// copies them from the ring. A Read that waits receives and runs the handler itself, if the
// provider permits it.
//
// # Trust
//
// The peer can write to our ring alone, at any time. Bytes changed while a Read copies them are
// the peer's own loss. Its counts are checked against the sent ones: it can neither make us read
// outside the ring nor write more than its own holds. If it returns no space, our Writes wait until
// their deadline. An invalid message ends the connection.
//
// # Locks
//
// Conn.readers, Conn.writers, outbound.mu, Conn.mu, in this order; the locks of rnic come last. The
// handler takes outbound.mu only if it is free: otherwise its owner looks for due updates after
// its post.
