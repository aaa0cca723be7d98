// MOUNT version 3: numbers and status values.

// Package mount3 has the message types for the MOUNT protocol version 3 (RFC 1813 appendix I). A
// mount uses it only a few times, so its codec is xdr.Marshal and xdr.Unmarshal, followed by
// checks of the protocol's limits.
package mount3

import "strconv"

// Program and Version name MOUNT version 3 in an RPC call.
const (
	Program = 100005
	Version = 3
)

// Procedure numbers (RFC 1813 §5.2).
const (
	ProcNull uint32 = iota
	ProcMnt
	ProcDump
	ProcUmnt
	ProcUmntall
	ProcExport
)

// Limits in bytes (RFC 1813 §5.1), and our own limits for lists.
const (
	MaxPath   = 1024 // a directory's path
	maxName   = 255  // a host's or group's name
	MaxHandle = 64
	MaxFlavor = 64      // authentication flavors for one mount
	MaxList   = 1 << 20 // bytes in a list of mounts or exports
)

// A Status is MNT's outcome (mountstat3, RFC 1813 §5.1.5). Each value but OK can be used as an
// error.
type Status uint32

// The status values.
const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrAcces       Status = 13
	ErrNotDir      Status = 20
	ErrInval       Status = 22
	ErrNameTooLong Status = 63
	ErrNotSupp     Status = 10004
	ErrServerFault Status = 10006
)

var statusNames = map[Status]string{
	OK: "MNT3_OK", ErrPerm: "MNT3ERR_PERM", ErrNoEnt: "MNT3ERR_NOENT", ErrIO: "MNT3ERR_IO", ErrAcces: "MNT3ERR_ACCES",
	ErrNotDir: "MNT3ERR_NOTDIR", ErrInval: "MNT3ERR_INVAL", ErrNameTooLong: "MNT3ERR_NAMETOOLONG",
	ErrNotSupp: "MNT3ERR_NOTSUPP", ErrServerFault: "MNT3ERR_SERVERFAULT",
}

// String returns the status's name in the RFC.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "mountstat3(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// Error makes a Status an error. OK is no error.
func (s Status) Error() string { return "mount3: " + s.String() }
