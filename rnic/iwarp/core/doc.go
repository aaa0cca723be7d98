// What the core is, what it is given, and what its owner has to see to.

// Package core is the protocol of one iWARP stream without the stream: it does no I/O, starts no
// goroutine and asks no clock, so that every rule of RFC 5040 and RFC 5041 is tested without a
// socket.
//
// Three parts, one of each for a stream. Inbound takes bytes: it finds FPDUs, checks each segment
// (inbound_check.go: nothing is changed, the result is an action or a fault) and does what it asks
// for (inbound_do.go: placement, completion, a queued response). Work is what is to be sent: posted
// work requests, Reads of ours that are outstanding, the peer's that wait for a response, and the
// turn, which is the right to send. Outbound takes from Work, and makes batches of FPDUs whose
// payload is pointed at, never copied.
//
// Inbound and Outbound are run by different goroutines at the same time, so the owner has one lock
// for each. They meet in Work only, which has a lock of its own; no method of Work calls into the
// other two. Errors that end the stream are *Fault when the peer is to be told (fault.go), and
// plain errors otherwise. Memory, receives and completions are the QP's: the core uses them by the
// methods of rnic.ProviderQP.
package core
