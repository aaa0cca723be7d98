// The package: features, and a request's path.

// Package fuseloop serves a FUSE connection: it mounts, reads the kernel's requests from /dev/fuse
// and writes the replies. go-fuse's ProtocolServer decodes requests and encodes the replies of all
// operations except READ.
//
// A request takes this path:
//
//	/dev/fuse ── one request per read(2) ──► Serve ── FORGET, BATCH_FORGET, INTERRUPT:
//	                                           │      the reader runs them itself
//	                                           │
//	                                           ├── a request in a buffer of its size, counted in
//	                                           │   flight; the reader may run it (reader.go)
//	                                           ▼
//	                                         worker ── READ: header and data leave in one write(2)
//	                                           │       or writev(2), from the file system's memory
//	                                           └────── others: ProtocolServer, one write(2)
//
// One goroutine reads without blocking until the device is empty, then parks in Go's network
// poller. A thread blocked in read(2) would lose and regain its P for each request. Workers wait
// for the file system's server, so there is one for each request. Idle workers are kept with their
// grown stacks. The reader runs messages without a reply itself, because nothing else limits how
// many the kernel sends.
//
// Errors of read(2) and write(2) on the device: EAGAIN: no request. EINTR and ENOENT: a signal
// interrupted the program before its request was read. ENODEV: the file system is unmounted or the
// connection was aborted. ENOENT for a reply: the program no longer waits.
//
// An INTERRUPT names a request in flight. The kernel sends it once, and again after the answer
// EAGAIN. That is the answer while the request is read but not begun. The kernel drops an INTERRUPT
// for an answered request.
package fuseloop
