// Numbers of the rpcbind protocols (RFC 1833 §2.1, §3.1).

// Package rpcbind holds the message types of the port mapper, program 100000,
// in its versions 2 (PORTMAP) and 3 and 4 (RPCBIND), RFC 1833. They are met
// when a server starts and ends, so their codec is xdr.Marshal and
// xdr.Unmarshal with limits.
package rpcbind

// Program is the number of the port mapper; Port is where it listens.
const (
	Program  = 100000
	VersPmap = 2
	Vers3    = 3
	Vers4    = 4
	Port     = 111
)

// Procedure numbers, those that we use. Number 3 is GETPORT in version 2 and
// GETADDR from version 3 on.
const (
	ProcNull    uint32 = 0
	ProcSet     uint32 = 1
	ProcUnset   uint32 = 2
	ProcGetport uint32 = 3
	ProcGetaddr uint32 = 3
	ProcDump    uint32 = 4
)

// Protocols of a Mapping: the numbers of IP.
const (
	TCP uint32 = 6
	UDP uint32 = 17
)

// Network identifiers of a Binding (RFC 5665 §5.1; rdma: RFC 8166 §9).
const (
	NetTCP   = "tcp"
	NetTCP6  = "tcp6"
	NetRDMA  = "rdma"
	NetRDMA6 = "rdma6"
)

// Limits of our own, in octets; the RFC sets none.
const (
	MaxString = 255
	MaxList   = 1 << 18 // of a DUMP
)
