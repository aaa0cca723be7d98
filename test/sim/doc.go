// Package sim runs two endpoints over a simulated network in simulated time. One seed
// decides everything that is chosen: sizes and forms of the calls, how many there are at once,
// when they are cancelled, what both sides are configured to, and what
// the network does to their bytes: where the stream is cut into pieces, how
// long each is on its way, when nothing moves and when the connection breaks.
//
// Every seed is held to the same invariants. An observer reads the FPDUs of both
// directions off the wire, with the codecs alone, both where they are sent and where they
// arrive; the rest is seen from the API:
//
//   - Every call ends once: with the right bytes, with the error that it must have, or cancelled.
//   - Credits are never exceeded, and none is lost: afterwards as many calls as there are
//     credits can be under way at once.
//   - Every tagged segment lies in memory that a call under way has advertised, or
//     answers an RDMA Read; every RDMA Read asks for such memory; no reply leaves before what it tells of.
//   - Nothing is placed in, or read from, memory that Do has given back.
//   - Work completes in the order of posting, each request once.
//   - A connection ends for no reason but one that the seed has given.
//   - At the end no goroutine is left and the budgets are whole.
//
// A seed that fails prints the command that runs it again.
package sim
