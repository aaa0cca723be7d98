// The core's purpose, its inputs, and its owner's duties.

// Package core implements one iWARP stream's protocol without the stream: it does no I/O,
// starts no goroutine and reads no clock, so that every rule of RFC 5040 and RFC 5041 can be tested
// without a socket.
//
// It has three parts for each stream. Inbound takes bytes: it finds FPDUs, checks each segment and
// executes it (inbound_segment.go: check changes nothing, and returns an action or a fault; do
// places, completes and queues responses). Work holds everything to send: posted work requests, our
// outstanding Reads, the peer's Reads waiting for a response, and the Turn, the right to send.
// Outbound takes from Work and makes batches of FPDUs that point at their payload without copying
// it.
//
// Inbound and Outbound run on different goroutines at the same time, so the owner has one lock for
// each. They meet only in Work, which has its own lock; no method of Work calls into the other two.
// Errors that end the stream are *Fault if the peer is notified (fault.go), and plain errors
// otherwise. Memory, receives and completions belong to the QP: the core uses them by the methods
// of rnic.ProviderQP.
package core
