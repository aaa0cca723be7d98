// The package: what it offers, and the way of a request.

// Package fuseloop serves a FUSE connection: it mounts, takes the kernel's requests from /dev/fuse
// and brings the answers back. go-fuse's ProtocolServer takes requests apart and makes the replies
// of all operations but READ.
//
// A request goes this way:
//
//	/dev/fuse ── one request a read(2) ──► Serve ── FORGET, BATCH_FORGET, INTERRUPT: done by the reader itself
//	                                         │
//	                                         ├── a request in a buffer of its size, entered in flight. One that is alone
//	                                         │   the reader runs itself (reader.go)
//	                                         ▼
//	                                       worker ── READ: header and data leave in one write(2) or writev(2),
//	                                         │            from the memory in which the file system has them
//	                                         └────── others: ProtocolServer, one write(2)
//
// One goroutine reads, without blocking, until there is nothing left, and then waits in Go's
// network poller: a thread that blocked in read(2) would be taken its processor from, and given it
// back, for each request. Workers wait for the server of the file system, so there are as many as
// there are requests; they are kept, with the stacks that they have grown. Messages that need no
// reply are done by the reader, because nothing else holds the kernel back from sending more.
//
// What read(2) and write(2) of the device say: EAGAIN: nothing is there. EINTR and ENOENT: a
// request was there and is gone, its program was interrupted before it was read. ENODEV: the file
// system is unmounted, or the connection was aborted. ENOENT of a reply: nobody waits for it any
// more.
//
// An INTERRUPT names a request that is under way. The kernel sends it once, and again when the
// answer is EAGAIN. That is the answer while the request has been read but not begun; one for a
// request that is answered is dropped there.
package fuseloop
