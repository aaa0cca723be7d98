// Package sim runs endpoints over a simulated network in simulated time. One seed decides
// everything that is chosen: sizes and forms of the calls, how many there are at once,
// when they are cancelled, what both sides are configured to, and what the network does to
// their bytes: where the stream is cut into pieces, how long each is on its way, how
// slow the link is, when nothing moves and when the connection breaks.
//
// There are three simulations. TestVerbs has two QPs with nothing above them, TestSeeds
// calls of RPC-over-RDMA in both directions, TestFiles two clients and a server of files over
// RDMA and TCP. An endpoint's socket blocks, or it tells when it is ready as TCP's does: then
// it fills, takes less than it is given, and returns after the peer has answered.
//
// Every seed is held to the same invariants. An observer reads the FPDUs of both
// directions off the wire, with the codecs alone, both where they are sent and where they
// arrive; the rest is seen from the API:
//
//   - Every call ends once: with the right bytes, with the error that it must have, or cancelled;
//     at once where it is cancelled after it has left.
//   - Credits are never exceeded, and none is lost: afterwards as many calls as there are
//     credits can be under way at once, less those whose replies have been lost. Where none
//     is left the connection ends.
//   - Every tagged segment lies in memory that a call under way has advertised, or
//     answers an RDMA Read; every RDMA Read asks for such memory; no reply leaves before the
//     data that belongs to it.
//   - Nothing is placed in, or read from, memory that Do has given back.
//   - Work completes in the order of posting, each request once, and somebody is told of it while
//     the socket is full; what is on the wire is what was posted, though a peer answers RDMA
//     Reads before they are asked.
//   - A connection ends for no reason but one that the seed has given.
//   - Data that was acknowledged is not undone by older data, however often its connection was cut
//     and wherever the server stalled; data that was synced survives a server that loses the rest.
//   - At the end no goroutine is left and the budgets are whole.
//
// The seeds run in child processes with one processor each, of a build in which others may run
// wherever a lock has been released (overlay_test.go), so that what happens depends on the
// seed alone. A seed that fails prints the command that runs it again.
package sim
