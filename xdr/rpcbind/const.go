// Numbers for the port mapper and rpcbind (RFC 1833 §2, §3).

// Package rpcbind has the message types for program 100000: the port mapper, version 2, which names
// ports, and rpcbind, versions 3 and 4, which name transports and addresses. A mount asks rpcbind
// once, so most types use xdr.Marshal and xdr.Unmarshal, with limits.
package rpcbind

// Program and Port are common to the port mapper and rpcbind; Version is the port mapper's,
// Version3 and Version4 are rpcbind's.
const (
	Program  = 100000
	Version  = 2
	Version3 = 3
	Version4 = 4
	Port     = 111
)

// Procedure numbers, for all versions unless noted.
const (
	ProcNull        uint32 = 0
	ProcSet         uint32 = 1
	ProcUnset       uint32 = 2
	ProcGetport     uint32 = 3 // version 2
	ProcGetaddr     uint32 = 3 // versions 3 and 4
	ProcDump        uint32 = 4
	ProcCallit      uint32 = 5 // BCAST in version 4
	ProcGettime     uint32 = 6 // versions 3 and 4
	ProcGetversaddr uint32 = 9 // version 4
)

// Protocols in a Mapping: IP protocol numbers.
const (
	TCP uint32 = 6
	UDP uint32 = 17
)

// Network identifiers in a Binding: rpcbind's transport names. RFC 5665 §5.1 defines the
// identifiers for TCP and UDP, RFC 8166 §8.1 those for RPC-over-RDMA.
const (
	NetTCP   = "tcp"
	NetTCP6  = "tcp6"
	NetUDP   = "udp"
	NetUDP6  = "udp6"
	NetRDMA  = "rdma"
	NetRDMA6 = "rdma6"
)

// MaxList is the longest DUMP result to decode, in bytes; the RFC sets no limit.
const MaxList = 1 << 18

// maxCallit is the most bytes of arguments or results in a call through a port mapper to decode:
// more than a datagram takes.
const maxCallit = 1 << 16

// maxString is the longest Binding string to decode, in bytes; the RFC sets no limit.
const maxString = 256
