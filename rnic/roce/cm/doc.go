// Overview: input, output, repetition, and attacks.

// Package cm is a RoCE port's communication manager (IBA volume 1, chapter 12), without I/O: it
// opens no socket, starts no goroutine and reads no clock. Like Linux's rdma_cm it opens and
// closes RC and UC connections by the messages of package mad. It also answers requests for a UD
// service's queue pair (SIDR).
//
// # Calling a CM
//
// A CM serves one port. Its owner passes in packets for queue pair 1 (Receive) and the time
// (Advance, at NextDeadline). After each method call the owner takes outgoing datagrams
// (PollSend) and events (PollEvent) until there are none. One goroutine at a time may call
// methods: the owner provides the lock.
//
//	active side                                        passive side
//	Connect       ──── REQ ───────────────────────►    Requested
//	                                                   Accept, or Reject
//	Replied       ◄─── REP ────────────────────────
//	Confirm       ──── RTU ───────────────────────►    Established
//	Established
//	Disconnect    ──── DREQ ──────────────────────►    Ended (ErrDisconnected)
//	Ended (nil)   ◄─── DREP ───────────────────────
//	Released                                           Released
//
// Before Accept the owner's queue pair must be ready to receive, since the peer may send as soon
// as it has the REP; before Confirm it must be ready to send. Either side may Disconnect. A
// Conn's last event is Released: until then its QPN MUST NOT be reused, because old packets may
// still be in flight.
//
// # Repetition
//
// Any datagram may be lost or duplicated. REQ, DREQ and SIDR_REQ are repeated until an answer or
// a timeout. An answer is repeated when its request comes again. A timer also repeats a REP, but
// only to a peer with a proven address, and an RTU a few times in any case.
//
// # Attacks
//
// A REQ's source may be forged. An RTU proves it, by repeating a random 32-bit number from the
// REP. Until then an address gets at most one datagram for each that it sent. The number of such
// half-open connections is limited, in total and for one source: the newest replaces the oldest
// (halfopen.go). A first packet on the queue pair proves nothing, since it repeats only a 24-bit
// number; see Heard. Stateless refusals are limited, too. A message counts as the peer's only if
// it comes from the peer's address and has the connection's identifiers, all random.
package cm
