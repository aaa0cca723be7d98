// How the package works: the life of a READ and of a WRITE, credit by credit.

// Package rpcrdma implements RPC-over-RDMA version 1 (RFC 8166) on the verbs of package rnic: its
// connections carry RPC calls in both directions. It transports messages (package chunks) with any
// content. An upper layer chooses the items of a call or a result allowed to travel as chunks, and
// takes them out of the XDR stream. Use it for messages other than ONC RPC version 2; package
// transport carries those.
//
//	c, err := rpcrdma.Dial(ctx, dev, l.Addr().String(), rpcrdma.Config{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer c.Close()
//	k := c.NewCall()
//	defer k.Release()
//	k.Msg = chunks.Message{Stream: e.Bytes()}
//	k.MaxReply = 12               // XID, direction, length of the item
//	k.Sink = make([]byte, 64<<10) // more than fits inline, so it is offered as a Write chunk
//	if err := c.Do(ctx, k); err != nil {
//		log.Fatal(err)
//	}
//
// Accept turns a listener's connection request into a connection; its Config.Handler serves the
// calls.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package rpcrdma

// # Two roles
//
// A Conn sets the connection up, handles completions and ends it. The requester makes calls, the
// responder serves them. Each is a type with its own lock, credits and tables, in files named after
// it. A Call and a Request are each in one state at a time, drawn in requester_call.go and
// responder_request.go.
//
// # Ownership
//
// A posted receive has no buffer. When a message arrives, the receive takes one from a pool shared
// by all connections (rnic.BufferPool). Then the message's Call or Request holds that buffer
// (recvCtx) until it posts a receive again. A Call belongs to one goroutine from NewCall to
// Release. A Request belongs to the Handler from ServeRPC to Reply, RejectChunks or Drop, and then
// to the send queue until the reply has left. Chunk buffers come from the pools of package mem and
// are released with their Call or Request, however it ends: answered, refused, cancelled, or
// flushed with the connection. The steady state allocates nothing.
//
// Only the requester exposes memory, and only for one RPC at a time: each region gets a new STag
// when the call is made and loses it before Do returns. Only the responder issues RDMA Reads and
// Writes.
//
// # The life of a READ
//
//	requester                                        responder
//	1 NewCall; the call is encoded into Scratch;
//	  Sink is where the data is placed
//	2 Do takes a credit, in order of arrival
//	3 prepare: the reply might not fit inline, so
//	  the sink is registered for RemoteWrite and
//	  offered as a Write chunk
//	4 header and call leave as one Send  ----------> 5 receive: parse, check; a Request is taken
//	                                                 6 ServeRPC decodes; Buffer gives room within
//	                                                   the Budget, which is filled from the file
//	                                                 7 Reply: the receive buffer is posted again;
//	                                                   only then can the credit be used again
//	                   <---- RDMA Write, the data -- 8 the item goes to the Write chunk where it
//	                   <---- Send with Invalidate -- 9 lies, the reply follows in the same batch
//	10 receive: matched by XID, the chunks checked
//	   against the offer; the grant moves the window;
//	   Do is woken                                   10 the Send has left: buffer and budget
//	                                                    are released
//	11 Do invalidates STags still valid, and
//	   returns: Reply's item is the sink
//	12 Release: receive buffer posted, credit given
//	   to the next call in line
//
// # The life of a WRITE
//
//	1-2 as above; the data is an item of Msg
//	3 prepare: the call does not fit inline, so the
//	  item is registered for RemoteRead and named by
//	  a Read chunk at its Position
//	4 header and the rest of the call leave -------> 5 receive: parse, check sizes and Positions
//	                                                 6 queuePull: wait for the Budget, if need be
//	                  <---- RDMA Read Request ------ 7 startPull: one sink for all chunks
//	  (the RNIC answers by itself) ----------------> 8 the last Read completes: the sink is
//	                                                   fenced, assemble puts the item to its
//	                                                   offset, ServeRPC
//	                  <---- Send with Invalidate --- 9 Reply
//	10-12 as above
//
// A call or reply too large for the inline threshold even without its items travels whole: the call
// in a Position-zero Read chunk, the reply in a Reply chunk.
//
// # Failures
//
// The responder answers an unacceptable call with RDMA_ERROR and never serves it. The requester
// drops an unacceptable reply, and the call then waits until its caller's context ends. When a
// context ends, Sink and items are taken from the peer at once: buffers from package mem replace
// them. These, the XID and the credit stay taken until the late reply. RDMA faults end the
// connection. So does a peer that overdraws its credits or stops all progress. Then every Call
// fails with a ClosedError.
