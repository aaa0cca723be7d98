// Numbers of the port mapper and of rpcbind (RFC 1833 §2, §3).

// Package rpcbind holds the message types of program 100000: the port mapper, its version 2,
// which names ports, and rpcbind, versions 3 and 4, which name transports and addresses.
// A mount asks it once, so the codec of its cold types is xdr.Marshal and
// xdr.Unmarshal with limits.
package rpcbind

// Program is the number of both; Version is the port mapper's, Version3 and Version4 are rpcbind's;
// Port is where all listen.
const (
	Program  = 100000
	Version  = 2
	Version3 = 3
	Version4 = 4
	Port     = 111
)

// Procedure numbers: of all versions, unless the name of one is there.
const (
	ProcNull        uint32 = 0
	ProcSet         uint32 = 1
	ProcUnset       uint32 = 2
	ProcGetport     uint32 = 3 // of version 2
	ProcGetaddr     uint32 = 3 // of versions 3 and 4
	ProcDump        uint32 = 4
	ProcGettime     uint32 = 6 // of versions 3 and 4
	ProcGetversaddr uint32 = 9 // of version 4
)

// Protocols of a Mapping: the numbers of IP.
const (
	TCP uint32 = 6
	UDP uint32 = 17
)

// Network identifiers of a Binding: transports as rpcbind names them. RFC 5665 §5.1 has
// those of TCP and UDP, RFC 8166 §8.1 has those of RPC-over-RDMA.
const (
	NetTCP   = "tcp"
	NetTCP6  = "tcp6"
	NetUDP   = "udp"
	NetUDP6  = "udp6"
	NetRDMA  = "rdma"
	NetRDMA6 = "rdma6"
)

// MaxList is the longest result of DUMP that is read, in bytes; the RFC sets no limit.
const MaxList = 1 << 18

// maxString is the longest string of a Binding that is read, in bytes; the RFC sets no limit.
const maxString = 256
