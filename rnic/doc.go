// What the package is, and how a program uses it.

// Package rnic is the verbs of a software RNIC: devices, protection domains, memory regions,
// queue pairs and completion queues. It knows no wire protocol: a provider below it speaks one
// (rnic/iwarp: MPA, DDP and RDMAP over TCP), with no hardware, kernel module or cgo.
//
// # How to use it
//
// Open a Device of a provider. Make a PD for each peer that is not to touch the memory of another,
// a CQ, and a QP with a send queue and a receive queue. Post receives, then Connect, or Listen
// and Accept. Register memory with RegMR and tell the peer its STag and Base, in a Send or in the private
// data; the peer names them in its Writes and Reads. Post work with PostSend, and learn of
// its end from the CQ: by a handler (SetHandler, quickest) or by Wait and Poll. What a
// work request points at is the QP's until its completion has been polled; every request that was
// taken completes, flushed ones too, before Done is closed. Err is why a QP ended.
// Caps is what the provider can do: ask it, rather than assume. The example of rnic/iwarp shows all of this.
//
// The peer is not authenticated and nothing is encrypted (RFC 5042): give remote rights for as long, and to
// as little memory, as the peer needs them.
//
// # What a provider does
//
// provider.go is the seam. A QP checks what is posted and hands it to its Endpoint; the Endpoint
// takes receives, places what the peer sends after the checks of mr.go, completes work into
// the CQs, and says why the QP ends: all by the methods of ProviderQP. The first error
// wins (ProviderQP.Fail): placement and transmission stop, all posted work completes, oldest
// first, as done or flushed, and buffers are the program's again before Done is closed.
//
// # Locks
//
// In this order, each innermost part last: the locks of an Endpoint, MR.mu, recvQueue.mu, CQ.mu.
// Device.atomics comes before MR.mu. QP.mu (state) is taken with none of those held but an
// Endpoint's, and none is taken while it is held. No handler runs under a lock.
package rnic
