// Package sim runs endpoints over a simulated network in simulated time. One seed decides all
// random choices: the calls' sizes and forms, their concurrency and cancellation, both sides'
// configuration, and the network's treatment of the bytes: where the stream is split into segments,
// each segment's delay, the link's rate, when it stalls and when the connection breaks.
//
// There are three simulations. TestVerbs has two QPs without an upper layer, TestSeeds
// RPC-over-RDMA calls in both directions, TestFiles two clients and a file server over RDMA and
// TCP. An endpoint's socket either blocks or signals readiness like TCP: then it fills up, accepts
// less than offered, and a write may return after the peer has already replied.
//
// Every seed must satisfy the same invariants. An observer decodes the FPDUs of both directions on
// the wire, only with the codecs, both at the sender and at the receiver. The rest is checked
// through the API:
//
//   - Every call ends once: with the right bytes, with the expected error, or cancelled;
//     immediately if it is cancelled after it has been sent.
//   - Credits are never exceeded, and none is lost: afterwards as many calls can be in flight as
//     there are credits, less those with lost replies. Without any credit left the connection ends.
//   - Every tagged segment lies in memory advertised by a running call, or answers an RDMA Read;
//     every RDMA Read requests such memory; no reply is sent before the data that belongs to it.
//   - Memory that Do has returned is neither written nor read.
//   - Work completes in posting order, each request once, and completions are delivered even while
//     the socket is full; the wire carries exactly the posted work, even if a peer answers RDMA
//     Reads before they are requested.
//   - A connection ends only for a reason given by the seed.
//   - Acknowledged data is not overwritten by older data, however often its connection was cut
//     and wherever the server stalled; synced data survives a server that loses the rest.
//   - At the end no goroutine is left and the budgets are complete.
//
// The seeds run in child processes with one processor each, so a run depends only on its seed. In
// their build other goroutines may run wherever a lock has been released (overlay_test.go). A
// failing seed prints the command that repeats it.
package sim
