// The network status monitor: its numbers, and the messages that it takes and gives.

// Package nsm holds the message types of the network status monitor, version 1
// (X/Open CAE specification C702, chapter 11), by which hosts tell one another that they
// have started again, so that locks are freed and reclaimed.
package nsm

import "github.com/nfsrdma/nfsrdma/xdr"

// Program and Version name NSM version 1 in an RPC call.
const (
	Program = 100024
	Version = 1
)

// Procedure numbers. All but NOTIFY are for the lock manager of the same host.
const (
	ProcNull     uint32 = 0
	ProcStat     uint32 = 1
	ProcMon      uint32 = 2
	ProcUnmon    uint32 = 3
	ProcUnmonAll uint32 = 4
	ProcSimu     uint32 = 5
	ProcNotify   uint32 = 6
)

// maxName is the longest name of a host, in bytes (SM_MAXSTRLEN).
const maxName = 1024

// Fail is the result of STAT and MON (sm_res) of a monitor that does not do it; 0 is that of one
// that does.
const Fail uint32 = 1

// A StatRes is the result of STAT and MON (sm_stat_res): State is that of this host.
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

// A StatChange is the arguments of NOTIFY (stat_chge): the host of this name has a new
// state, which is odd while it is up and grows with each start.
type StatChange struct {
	Name  []byte // part of the bytes that it was read from
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
