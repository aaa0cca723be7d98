// What the package is, and the life of a Send, a Write and a Read in it.

// Package rnic is a software iWARP RNIC: the RDMA verbs over MPA, DDP and RDMAP
// (RFC 5044, RFC 5041, RFC 5040) on TCP, with no hardware, kernel module or cgo.
//
// # How to use it
//
// Open a Device. Make a PD for each peer that is not to touch the memory of another,
// a CQ, and a QP with a send queue and a receive queue. Post receives, then Connect, or Listen
// and Accept. Register memory with RegMR and tell the peer its STag and Base, in a Send or in the private
// data; the peer names them in its Writes and Reads. Post work with PostSend, and learn of
// its end from the CQ: by a handler (SetHandler, quickest) or by Wait and Poll. What a
// work request points at is the QP's until its completion has been polled; every request that was
// taken completes, flushed ones too, before Done is closed. Err says why a QP ended.
// The example shows all of this. Who connects has to send first; where the other side is to,
// ConnParams.RTR has the RNIC do it.
//
// The peer is whoever speaks iWARP: another Device, Linux siw, or hardware. It is not
// authenticated and nothing is encrypted (RFC 5042): give remote rights for as long, and to as little
// memory, as the peer needs them. A QP also runs on any other net.Conn (ConnectOver, ListenOn), TLS for one.
//
// # Who does what
//
// A QP has two goroutines. The receive loop reads as much as is there, checks
// and places every whole FPDU of it, runs the CQ handlers once, and sends what
// they posted in one system call. The transmit loop sleeps; it takes over when
// TCP has no room, and it ends the stream. Whoever posts work transmits it
// himself, without ever waiting, if nobody does already. The receive loop never
// waits for the transmitter, so two peers with full TCP windows cannot block each other.
//
// # The life of a Send and a Write
//
// PostSend copies the work request, not its payload, into the send queue. The
// transmitter cuts it into FPDUs that fit a TCP segment: headers, pad and CRC in
// scratch memory, payload pointed at where it lies. Many FPDUs of many work
// requests leave in one writev. When TCP has taken the last octet the request is
// complete, and its memory is the caller's again once the completion, which
// waits for those of older requests, has been polled. At the peer a Send fills
// the oldest posted receive, a Write the Memory Region that its STag names; no
// octet is placed before the CRC over its FPDU was right, and none before
// key, PD, rights and bounds were. Without CRCs the payload of large FPDUs is read
// from the socket straight to where it belongs (rx_direct.go).
//
// # The life of a Read
//
// A Read Request leaves as soon as fewer than ORD are outstanding. The peer's
// receive loop judges it and queues it, up to IRD; its transmitter answers,
// taking turns with its own work message by message. Each segment of the
// response is judged again, and points into the source region, which knows
// of it: Invalidate replaces what has not left by a copy and returns at once.
// The response is placed in the sink only where the oldest Read expects it.
//
// # The end
//
// The first error wins (QP.fail). Placement and transmission stop, all posted work
// completes, oldest first, as done or flushed, and buffers are home before Done is
// closed. A fault of the peer's is told to it by a Terminate at the next FPDU
// boundary; then FIN, and input is discarded until the peer's FIN or a deadline.
//
// # Locks
//
// In this order, each innermost part last: receiver.mu (octets are being placed),
// transmitter.mu (a batch is built or handed to TCP), MR.mu, sendQueue.mu or
// recvQueue.mu, CQ.mu. QP.mu (state) is taken with none of them held, except that
// it may be held while sendQueue.mu is taken. No handler runs under a lock.
package rnic
