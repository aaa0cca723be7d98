// Numbers of the port mapper (RFC 1833 §3).

// Package rpcbind holds the message types of the port mapper, program 100000, in
// its version 2, which every host that has one speaks and which alone names ports.
// A mount asks it once, so the codec of its cold types is xdr.Marshal and
// xdr.Unmarshal with limits.
package rpcbind

// Program and Version are those of the port mapper; Port is where it listens.
const (
	Program = 100000
	Version = 2
	Port    = 111
)

// Procedure numbers, those that we call.
const (
	ProcGetport uint32 = 3
	ProcDump    uint32 = 4
)

// Protocols of a Mapping: the numbers of IP.
const (
	TCP uint32 = 6
	UDP uint32 = 17
)

// MaxList is the longest result of DUMP that is read, in bytes; the RFC sets no limit.
const MaxList = 1 << 18
