// What a communication manager is, what it is given, and what its owner has to see to.

// Package cm is the communication manager of a RoCE port (IBA volume 1, chapter 12), without I/O:
// it opens no socket, starts no goroutine and asks no clock. It makes and ends connections of RC
// and UC by the messages of package mad, as Linux's rdma_cm does, and answers who has a service of
// UD (SIDR).
//
// # How it is driven
//
// A CM is one port's. Its owner gives it what comes for queue pair 1 (Receive) and what time it is
// (Advance, at NextDeadline). After each call of any method the owner takes what is to be sent
// (PollSend), and what has happened (PollEvent), until both are empty. Methods are called by one
// goroutine at a time: the owner has the lock.
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
// The owner has its queue pair ready to receive before Accept, since the peer may send as soon as
// it has the REP; and before Confirm ready to send. Either side may Disconnect. Of each Conn the
// last event is Released: until then its QPN MUST NOT be used for another connection, for packets
// of the old one may still be on their way.
//
// # What is repeated
//
// Any datagram may be lost or come twice. REQ, DREQ and SIDR_REQ are sent again until there is an
// answer or patience ends. An answer is sent again when what it answers comes again. A REP is also
// sent again by time, but only to a peer that has proven its address; an RTU is so a few times in
// any case.
//
// # What strangers can do
//
// A REQ may have a forged source. So before an RTU has come, which repeats a number of 32 bits that
// only who has received the REP knows, an address is sent at most one datagram for each that came
// from it, and there is room for a limited number of such half-open connections, in all and for one
// source: the oldest makes room for the newest (halfopen.go). A first packet on the queue pair is
// no such proof, since it repeats only its number of 24 bits; see Heard. Refusals that need no
// state are limited in number. Nothing of what is received is trusted to be from the peer unless it
// comes from the peer's address and has the connection's identifiers, all chosen at random.
package cm
