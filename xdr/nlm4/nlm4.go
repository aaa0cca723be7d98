// Numbers for the network lock manager (RFC 1813 appendix II).

// Package nlm4 has the message types for the network lock manager, version 4 (RFC 1813 §6). Names
// and objects in a decoded message alias the decoded bytes: copy them to keep them longer.
package nlm4

import "strconv"

// Program and Version name NLM version 4 in an RPC call.
const (
	Program = 100021
	Version = 4
)

// Procedure numbers (RFC 1813 §6.2). A Msg procedure is answered by a call to the Res procedure
// in the other direction.
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

// Limits in bytes: the protocol's LM_MAXSTRLEN and MAXNETOBJ_SZ.
const (
	MaxName   = 1024 // a caller's name
	MaxObject = 1024 // cookie, handle or owner
)

// A Status is a call's outcome (nlm4_stats, RFC 1813 §6.1).
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

// String returns the status's name in the RFC.
func (s Status) String() string {
	if uint64(s) < uint64(len(statusNames)) {
		return statusNames[s]
	}
	return "nlm4_stats(" + strconv.FormatUint(uint64(s), 10) + ")"
}
