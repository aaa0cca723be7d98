// The Device: a software RNIC, its limits, and the table of its STags.

package rnic

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic/internal/stagsource"
)

// A Device is one software RNIC. Its methods may be called from any goroutine.
type Device struct {
	// set once
	provider Provider
	caps     Caps

	stags stagTable // has its own locks

	atomics sync.Mutex // held while an atomic operation is done; before MR.mu

	tally tally.Sum // has its own lock
}

// Service is what a QP promises, as the InfiniBand architecture names it (volume 1, §9).
type Service uint8

// The services. Only RC has RDMA Reads.
const (
	RC Service = iota // one peer; messages arrive once, in order, or the QP ends
	UC                // one peer; a lost packet loses its message, and nobody is told
	UD                // many peers; a message is one packet
)

// Caps is what a provider can do, so that a ULP asks rather than assumes.
type Caps struct {
	Provider       string // its name, as for Open
	Services       uint8  // a bit for each: 1<<RC | 1<<UD
	Reliable       bool   // messages arrive once, in order, or the QP fails
	RDMARead       bool   // OpRead is served
	RemoteInval    bool   // OpSendInvalidate is served
	Immediate      bool   // OpImmediate is served
	ImmediateData  bool   // OpSendImmediate, OpWriteImmediate and those with an event are served
	Atomics        bool   // the atomic operations are served: atomic among all QPs of the device, and nothing else
	MaxIRD, MaxORD int
	MaxMessage     uint64 // bytes of one Send, Write or Read
	MaxPrivateData int    // bytes of ConnParams.PrivateData
}

// Caps returns what the device can do.
func (d *Device) Caps() Caps { return d.caps }

// Mechanisms are the decisions of the provider's mechanisms for the QPs of the device since it
// was opened: poll, sleep, turns, mute, drive, lend and early_part of iWARP over TCP, and none of
// others. The table is the caller's.
func (d *Device) Mechanisms() tally.Table { return d.tally.Table() }

// stagShards is how many ways the STag table is cut, so that look-ups of different QPs seldom meet.
const stagShards = 64

// A stagTable finds a Memory Region by the index of its STag.
type stagTable [stagShards]stagShard

type stagShard struct {
	mu sync.RWMutex
	m  map[uint32]*MR // guarded by mu; key is the 24-bit index
	_  [24]byte       // keeps neighbours off one cache line
}

var errNoSTag = errors.New("rnic: no STag index is free")

func (t *stagTable) shard(index uint32) *stagShard { return &t[index%stagShards] }

// lookup returns the Memory Region that has the index of s, whatever its key, or nil.
func (t *stagTable) lookup(s STag) *MR {
	index := uint32(s) >> 8
	sh := t.shard(index)
	sh.mu.RLock()
	mr := sh.m[index]
	sh.mu.RUnlock()
	return mr
}

// insert gives mr a random free index. Random over all 24 bits keeps STags hard
// to guess and their reuse rare (RFC 5040 §8.1.1 [R5040-211], RFC 5042 §6.1 [R5040-250]).
func (t *stagTable) insert(mr *MR) error {
	for range 64 {
		var b [4]byte
		stagsource.Read(b[:])
		index := binary.BigEndian.Uint32(b[:]) >> 8
		if index == 0 {
			continue
		}
		sh := t.shard(index)
		sh.mu.Lock()
		if _, taken := sh.m[index]; !taken {
			if sh.m == nil {
				sh.m = make(map[uint32]*MR)
			}
			sh.m[index] = mr
			mr.index = index
			sh.mu.Unlock()
			mr.stag.Store(index<<8 | uint32(b[3]))
			return nil
		}
		sh.mu.Unlock()
	}
	return errNoSTag
}

func (t *stagTable) remove(mr *MR) {
	sh := t.shard(mr.index)
	sh.mu.Lock()
	if sh.m[mr.index] == mr {
		delete(sh.m, mr.index)
	}
	sh.mu.Unlock()
}
