// The provider, and the life of a Send, a Write and a Read in it.

// Package iwarp is rnic's provider for iWARP: RDMAP over DDP over MPA over TCP (RFC 5040, 5041,
// 5044, 6581, 7306). Open returns a Device:
//
//	dev := iwarp.Open(rnic.DeviceConfig{})
//	l, err := dev.Listen("tcp", "127.0.0.1:0")
//	if err != nil {
//		log.Fatal(err)
//	}
//	cq := dev.NewCQ(16)
//	pd := dev.AllocPD()
//	qp, err := pd.CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
//
// The peer is another Device, Linux siw or an iWARP adapter. A QP also runs on any other net.Conn,
// such as TLS (Device.ConnectOver, Device.ListenOn). The connecting side has to send first. If the
// other side is to do so, set ConnOptions.RTR: then the RNIC sends the first message.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package iwarp

// # Goroutines
//
// Package core has the protocol and does no I/O. A stream joins the core to a connection with two
// goroutines. The receive loop reads all available input, lets the core check and place every whole
// FPDU, runs the CQ handlers once, and sends the work they posted in one system call. A caller that
// waits for its reply can receive in the loop's place (receiveright.go). The transmit loop sleeps
// until TCP has no room, and it ends the stream. A posting goroutine transmits its work, unless
// another goroutine is transmitting, and never waits. The receive loop never waits for the
// transmitter, so two peers with full TCP windows cannot block each other.
//
// # The life of a Send and a Write
//
// QP.PostSend copies the work request, not its payload, into the send queue. The goroutine with the
// turn, the right to send (core.Turn), cuts the message into FPDUs, one per TCP segment: headers,
// pad and CRC in scratch memory, payload by reference, without a copy. Many FPDUs of many work
// requests leave in one writev. When TCP has taken the last byte the request is complete, and its
// memory is the caller's again once its completion has been polled. Completions come in posting
// order. At the peer a Send fills the oldest posted receive, a Write the Memory Region that its
// STag names; no byte is placed before key, PD, rights and bounds were checked. With CRCStrict, no
// byte is placed before its FPDU's CRC was checked either. Otherwise the payload of large FPDUs is
// read from the socket straight into its destination: with CRCs only if the destination is known
// without the segment's header, and nothing is reported before the CRC has been checked
// (core/direct.go).
//
// # The life of a Read
//
// A Read Request leaves as soon as fewer than ORD are outstanding. The peer's receive loop checks
// and queues the request, up to IRD; the peer's transmitter answers it, alternating with its own
// messages. Each segment of the response is checked again, and points into the source region, which
// is pinned: Invalidate replaces the unsent part by a copy and returns at once. The response is
// placed in the sink only where the oldest Read expects it.
//
// # The end
//
// The first error wins (stream.end). Placement and transmission stop, all posted work
// completes, oldest first, as done or flushed, and buffers are the caller's before Done is
// closed. A fault by the peer is reported to the peer in a Terminate at the next FPDU
// boundary. FIN follows, and input is discarded until the peer's FIN or a deadline.
//
// # Locks
//
// Locks are taken in this order: receiver.mu (bytes are being placed), transmitter.mu (a batch is
// built or handed to TCP), MR.mu, core.Work.mu or the receive queue's lock, CQ.mu. stream.mu (how
// the stream ends) comes before QP.mu (the QP's state) and, when the stream starts, before
// core.Work.mu; no other lock is held with stream.mu. No handler runs under a lock.
