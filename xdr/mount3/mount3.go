// The types of MOUNT version 3 and their codec, all of it by reflection.

// Package mount3 holds the message types of the MOUNT protocol version 3
// (RFC 1813 appendix I). It is met a few times in the life of a mount, so its
// codec is xdr.Marshal and xdr.Unmarshal; what was read is then held to the
// protocol's limits.
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

// Limits in bytes (RFC 1813 §5.1), and our own for lists.
const (
	MaxPath   = 1024 // path of a directory
	maxName   = 255  // name of a host or group
	MaxHandle = 64
	MaxFlavor = 64      // authentication flavors of one mount
	MaxList   = 1 << 20 // bytes of a list of mounts or exports
)

// A Status is how MNT ended (mountstat3, RFC 1813 §5.1.5). Every value but OK can be used as an
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

// String is the RFC's name of the status.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "mountstat3(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// Error makes a Status an error. OK is not one.
func (s Status) Error() string { return "mount3: " + s.String() }
