// Package documentation: purpose and use.

// Package rnic implements the verbs of a software RNIC (an RDMA network adapter): devices,
// protection domains, memory regions, queue pairs and completion queues. RDMA programs built on it
// need no hardware, kernel module or cgo. A provider implements the wire protocol: rnic/iwarp
// speaks iWARP over TCP, rnic/roce RoCEv2 over UDP.
//
//	dev := iwarp.Open(rnic.DeviceConfig{})
//	cq := dev.NewCQ(16)
//	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
//	if err != nil {
//		log.Fatal(err)
//	}
//	if err := qp.PostRecv(rnic.RecvWR{ID: 1, Buf: make([]byte, 64)}); err != nil {
//		log.Fatal(err)
//	}
//	if err := dev.Connect(ctx, qp, addr, rnic.ConnParams{}); err != nil {
//		log.Fatal(err)
//	}
//	hello := [][]byte{[]byte("hello")}
//	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: hello, Unsignaled: true}); err != nil {
//		log.Fatal(err)
//	}
//
// The package's examples show one verb each: RDMA Write, RDMA Read, Send with Invalidate, private
// data and handlers; rnic/roce shows datagrams. test/examples/verbs in this module is a complete
// program for both providers.
//
// # How to use it
//
// Open a provider's Device. Make a CQ, a PD for each peer that must not touch another's memory, and
// a QP with a send queue and a receive queue. Post receives, then Connect, or Listen and Accept.
// Register memory with RegMR, and send the peer its STag and Base in a Send or in the private data,
// for its Writes and Reads. Post work with PostSend. The CQ reports the end of the work, to a
// handler (SetHandler, the fastest way) or to Wait and Poll. The memory of a work request belongs
// to the QP until its completion has been polled. Every accepted request completes, flushed ones
// too, before Done is closed. Err returns why a QP ended. Caps lists the provider's features: query
// it before use.
//
// The peer is not authenticated and nothing is encrypted (RFC 5042): grant remote rights for as
// short a time, and on as little memory, as the peer needs.
//
// Providers use Provider, Endpoint, ProviderQP, SendQueue and the other names of provider.go.
// Programs need none of them.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package rnic

// # A provider's work
//
// provider.go is the seam. A QP checks posted work and passes it to its Endpoint. The Endpoint
// takes receives, places the peer's data after the checks of mr.go, completes work into the CQs,
// and reports why the QP ends: all by the methods of ProviderQP. The first error wins
// (ProviderQP.Fail). Then placement and transmission stop, and all posted work completes, oldest
// first, as done or flushed. The program owns its buffers again before Done is closed.
//
// # Locks
//
// Locks are taken in this order: the locks of an Endpoint, MR.mu, recvQueue.mu, CQ.mu.
// Device.atomics comes before MR.mu. QP.mu (state) is taken under none of these except an
// Endpoint's, and no lock is taken under it. No handler runs under a lock.
