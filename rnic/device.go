// The Device: a software RNIC, its limits, and the table of its STags.

package rnic

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic/internal/stagsource"
)

// A Device is one software RNIC. Any goroutine may call its methods.
type Device struct {
	// set once
	provider Provider
	caps     Caps

	stags stagTable // has its own locks

	atomics sync.Mutex // held during an atomic operation; taken before MR.mu

	tally tally.Sum // has its own lock
}

// Service is a QP's delivery guarantee, named as in the InfiniBand architecture (volume 1, §9).
type Service uint8

// The services. Only RC has RDMA Reads.
const (
	RC Service = iota // one peer; messages arrive once, in order, or the QP ends
	UC                // one peer; a lost packet loses its message without an error
	UD                // many peers; a message is one packet
)

// Caps are a provider's features; a ULP must query them.
type Caps struct {
	Provider       string // its name for Open
	Services       uint8  // a bit for each: 1<<RC | 1<<UD
	Reliable       bool   // messages arrive once, in order, or the QP fails
	RDMARead       bool   // OpRead is served
	RemoteInval    bool   // OpSendInvalidate is served
	Immediate      bool   // OpImmediate is served
	ImmediateData  bool   // OpSendImmediate, OpWriteImmediate and their SE variants are served
	Atomics        bool   // the atomic operations are served: atomic among the device's QPs only
	MaxIRD, MaxORD int
	MaxMessage     uint64 // in one Send, Write or Read, in bytes
	MaxPrivateData int    // size in bytes of ConnParams.PrivateData
}

// Caps returns the device's features.
func (d *Device) Caps() Caps { return d.caps }

// Mechanisms returns the decision counts of the provider's mechanisms for the device's QPs since
// the device was opened. iWARP over TCP has spin, block, yield, poller_mask, caller_receive,
// early_flush and call_yield, RoCE spin, batch_yield, join_packets, early_retransmit and reorder.
// A port of RoCE counts for the Device that connected a QP there first. The caller owns the table.
func (d *Device) Mechanisms() DecisionTable { return d.tally.Table() }

// stagShards is the number of shards in the STag table, so that look-ups by different QPs seldom
// contend.
const stagShards = 64

// A stagTable finds a Memory Region by the index of its STag.
type stagTable [stagShards]stagShard

type stagShard struct {
	mu sync.RWMutex
	m  map[uint32]*MR // guarded by mu; the key is the 24-bit index
	_  [24]byte       // keeps neighbours off one cache line
}

var errNoSTag = errors.New("rnic: no STag index is free")

func (t *stagTable) shard(index uint32) *stagShard { return &t[index%stagShards] }

// lookup returns the Memory Region with the index of s and any key, or nil.
func (t *stagTable) lookup(s STag) *MR {
	index := uint32(s) >> 8
	sh := t.shard(index)
	sh.mu.RLock()
	mr := sh.m[index]
	sh.mu.RUnlock()
	return mr
}

// insert gives mr a random free index. Random over all 24 bits keeps STags hard to guess and their
// reuse rare (RFC 5040 §8.1.1 [R5040-211], RFC 5042 §6.1 [R5040-250]).
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
