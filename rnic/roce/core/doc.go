// Overview: input, output, the caller's duties, and lock order.

// Package core implements InfiniBand's transport services (IBA volume 1, chapter 9) without a
// network. It does no I/O, starts no goroutine and reads no clock, so tests cover every rule
// without a socket.
//
// A Port has the queue pairs that share one address. Receive takes a datagram, does the checks
// common to all services, and passes the packet to its QP. A QP takes posted work (Post) and
// builds the next packet (Next). Its owner reports packets that the network has taken (Sent) or
// refused (SendFailed). Memory, receives and completions belong to the verbs: the core uses them
// through the methods of rnic.ProviderQP.
//
// # A message's way
//
// Out: Post queues work requests. Next builds one packet in the caller's buffer: headers, the
// payload, copied from the program's memory, then the pad. That is the only copy. No packet
// points into memory, so a region is free as soon as its lock is. The caller adds network headers
// and the ICRC, sends packets in the order of Next, and reports how many have left. At that point
// an unreliable message is complete (IBA 9.8.2.1.4 [IBU-055], 9.8.3.1.2 [IBU-135]).
//
// An RC message is complete when the peer has acknowledged it. Until then the QP keeps its work
// request, owns the program's memory, and builds retransmitted packets from it again. The
// congestion window limits the packets on the wire, and Reads are requested in units that fit
// (rc_pace.go). Time comes in as an Instant; Deadline returns when to call Tick. A ring of fixed
// size queues a responder's answers (rc_answer.go). Read data is taken from memory packet by
// packet, as each is sent, after a check of its region.
//
// Messages that consume a peer's receive wait for its credits, if its acknowledges carry credits
// (rc_credit.go). Our acknowledges carry them only if the owner asks for it: Linux rxe neither
// sends nor obeys credits. RPC-over-RDMA has its own, backed by posted receives.
//
// In: a datagram passes the steps of figure 117 (IBA 9.8.1 [IBU-017]), each in one function:
//
//	network, ICRC, length, version       Port.Receive (port.go), packet.Parse
//	destination QP, state, service,      QP.admit (admit.go)
//	addresses, P_Key, Q_Key
//	PSN, opcode sequence                 receiveUC (uc_recv.go); UD has none
//	opcode served, receive, length,      checkUC, checkUD: nothing is changed
//	R_Key and bounds
//	placement, completion                doUC, doUD
//
// RC has the same steps in receiveRequest (rc_recv.go). receiveResponse takes the peer's answers
// (rc_ack.go).
//
// The first failing step drops the packet and counts it (Drop). RC answers some drops with a NAK.
// A QP with an unreliable service never answers a packet (IBA 9.8 [IBU-002]). Only a full
// completion queue ends it: no packet from the network can.
//
// # Attacks
//
// A QP has a fixed size (RC: proportional to its IRD), and holds at most one receive for an
// incomplete message. Neither the ICRC nor addresses are secret: an attacker able to forge a
// packet's source address, with knowledge of the QPN and, for UD, the Q_Key, can inject a
// message.
//
// # Locks
//
// Port.mu, then QP.mu, then the locks of rnic.ProviderQP (MR.mu, the receive queue's, CQ.mu). No
// handler runs under them: the caller runs ProviderQP.Notify afterwards. One goroutine at a time
// calls Next, Sent and SendFailed, because packets must leave in the order of the calls.
package core
