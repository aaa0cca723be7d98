// The network status monitor: its numbers and messages.

// Package nsm has the message types for the network status monitor, version 1 (X/Open CAE
// specification C702, chapter 11). With it a restarted host notifies others, which then free or
// reclaim locks.
package nsm

import "github.com/nfsrdma/nfsrdma/xdr"

// Program and Version name NSM version 1 in an RPC call.
const (
	Program = 100024
	Version = 1
)

// Procedure numbers. All but NOTIFY are for the same host's lock manager.
const (
	ProcNull     uint32 = 0
	ProcStat     uint32 = 1
	ProcMon      uint32 = 2
	ProcUnmon    uint32 = 3
	ProcUnmonAll uint32 = 4
	ProcSimu     uint32 = 5
	ProcNotify   uint32 = 6
)

// maxName is the longest host name, in bytes (SM_MAXSTRLEN).
const maxName = 1024

// Fail is the result for STAT and MON (sm_res) if the monitor does not support them; 0 means
// success.
const Fail uint32 = 1

// A StatRes is the result for STAT and MON (sm_stat_res). State is the number of this host's state
// (see StatChange).
type StatRes struct {
	Result uint32
	State  int32
}

// EncodeXDR appends the result.
func (r *StatRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(r.Result)
	e.Int32(r.State)
}

// DecodeXDR reads a result.
func (r *StatRes) DecodeXDR(d *xdr.Decoder) {
	r.Result = d.Uint32()
	r.State = d.Int32()
}

// A StatChange has NOTIFY's arguments (stat_chge): the named host has a new state, which is odd
// while the host is up and increases with each restart.
type StatChange struct {
	Name  []byte // aliases the decoded bytes
	State int32
}

// EncodeXDR appends the arguments.
func (c *StatChange) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(c.Name)
	e.Int32(c.State)
}

// DecodeXDR reads the arguments.
func (c *StatChange) DecodeXDR(d *xdr.Decoder) {
	c.Name = d.Opaque(maxName)
	c.State = d.Int32()
}
