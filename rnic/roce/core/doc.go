// What the core is, what it is given, and what its owner has to see to.

// Package core is the transport services of InfiniBand (IBA volume 1, chapter 9) without a network:
// it does no I/O, starts no goroutine and asks no clock, so that every rule is tested without a
// socket.
//
// A Port has the queue pairs that share one address. It takes datagrams (Receive), checks what
// holds for all services, and gives each to its QP. A QP takes posted work (Post), says what packet
// is next (Next), and is told what the network has taken (Sent) or refused (SendFailed). Memory,
// receives and completions are those of the verbs: the core uses them by the methods of
// rnic.ProviderQP.
//
// # The way of a message
//
// Out: Post queues work requests. Next builds one packet in room of the caller's: headers, then the
// payload, copied from where the program has it, then the pad. That is the only copy, and no packet
// points into memory, so a region is free as soon as its lock is. Network headers and the ICRC are
// the caller's, who sends packets in the order of Next and says how many have left. A message of an
// unreliable service is complete then (IBA 9.8.2.1.4 [IBU-055], 9.8.3.1.2 [IBU-135]).
//
// An RC message is complete when the peer has acknowledged it. Until then it is kept, and packets
// that are sent again are built anew from the program's memory, which is the QP's for as long. How
// many are on the wire follows what the network carries, and Reads are asked for in units that fit
// (rc_pace.go). Time comes in as an Instant; Deadline says when Tick has to be called. What a
// responder owes is in a ring of fixed size (rc_answer.go), and data of Reads is taken from memory,
// under the checks of its region, packet by packet when it is sent.
//
// Messages that need a receive of the peer's wait for its credits, if its acknowledges tell them
// (rc_credit.go). Ours do only where the owner asks for it: Linux rxe tells none and obeys none,
// and RPC-over-RDMA has credits of its own, with receives posted for them.
//
// In: a datagram passes the steps of figure 117 (IBA 9.8.1 [IBU-017]), each in a function of its
// own:
//
//	network, ICRC, length, version       Port.Receive (port.go), packet.Parse
//	destination QP, state, service,      QP.admit (admit.go)
//	addresses, P_Key, Q_Key
//	PSN, opcode sequence                 receiveUC (uc_recv.go); UD has none
//	opcode served, receive, length,      checkUC, checkUD: nothing is changed
//	R_Key and bounds
//	placement, completion                doUC, doUD
//
// RC has the same steps in receiveRequest (rc_recv.go), and takes answers of the peer in
// receiveResponse (rc_ack.go).
//
// The first step that fails drops the packet and counts it (Drop). RC answers some with a NAK. A QP
// of an unreliable service never answers a packet (IBA 9.8 [IBU-002]), and nothing that comes from
// the network ends it, but a completion queue that is full.
//
// # What it costs a peer's enemy
//
// A QP has a fixed size (RC: in proportion to its IRD), and holds at most one receive at a time for
// a message that is not whole. The ICRC is no secret, and neither are addresses: who can forge a
// packet's source and knows QPN and, for UD, the Q_Key can put a message in.
//
// # Locks
//
// Port.mu, then QP.mu, then those of rnic.ProviderQP (MR.mu, the receive queue's, CQ.mu). No
// handler runs under them: who calls runs ProviderQP.Notify afterwards. Next, Sent and SendFailed
// are called by one goroutine at a time, for the order of packets is that of the calls.
package core
