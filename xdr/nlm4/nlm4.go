// Numbers of the network lock manager (RFC 1813 appendix II).

// Package nlm4 holds the message types of the network lock manager, version 4
// (RFC 1813 §6). What a decoded message has of names and objects is part of the
// bytes it was read from: who keeps it longer than those makes copies.
package nlm4

import "strconv"

// Program and Version name NLM version 4 in an RPC call.
const (
	Program = 100021
	Version = 4
)

// Procedure numbers (RFC 1813 §6.2). Those of name Msg are answered by a call of
// that of name Res in the other direction.
const (
	ProcNull       uint32 = 0
	ProcTest       uint32 = 1
	ProcLock       uint32 = 2
	ProcCancel     uint32 = 3
	ProcUnlock     uint32 = 4
	ProcGranted    uint32 = 5
	ProcTestMsg    uint32 = 6
	ProcLockMsg    uint32 = 7
	ProcCancelMsg  uint32 = 8
	ProcUnlockMsg  uint32 = 9
	ProcGrantedMsg uint32 = 10
	ProcTestRes    uint32 = 11
	ProcLockRes    uint32 = 12
	ProcCancelRes  uint32 = 13
	ProcUnlockRes  uint32 = 14
	ProcGrantedRes uint32 = 15
	ProcShare      uint32 = 20
	ProcUnshare    uint32 = 21
	ProcNMLock     uint32 = 22
	ProcFreeAll    uint32 = 23
)

// Limits in bytes: LM_MAXSTRLEN and MAXNETOBJ_SZ of the protocol.
const (
	MaxName   = 1024 // name of a caller
	MaxObject = 1024 // cookie, handle or owner
)

// A Status is how a call ended (nlm4_stats, RFC 1813 §6.1).
type Status uint32

// The status values.
const (
	Granted           Status = 0
	Denied            Status = 1
	DeniedNoLocks     Status = 2
	Blocked           Status = 3
	DeniedGracePeriod Status = 4
	Deadlock          Status = 5
	ROFS              Status = 6
	StaleFH           Status = 7
	FBig              Status = 8
	Failed            Status = 9
)

var statusNames = [...]string{"NLM4_GRANTED", "NLM4_DENIED", "NLM4_DENIED_NOLOCKS", "NLM4_BLOCKED", "NLM4_DENIED_GRACE_PERIOD",
	"NLM4_DEADLCK", "NLM4_ROFS", "NLM4_STALE_FH", "NLM4_FBIG", "NLM4_FAILED"}

// String is the RFC's name of the status.
func (s Status) String() string {
	if uint64(s) < uint64(len(statusNames)) {
		return statusNames[s]
	}
	return "nlm4_stats(" + strconv.FormatUint(uint64(s), 10) + ")"
}
