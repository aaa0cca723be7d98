// The Device: a software RNIC, its limits, and the table of its STags.

package rnic

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

// Limits that hold for every Device unless its DeviceConfig says otherwise.
const (
	defaultReads      = 128 // IRD and ORD; what Linux siw caps them at
	defaultHandshakes = 256
	acceptTimeout     = 5 * time.Second  // for the whole MPA Request (RFC 5044 §7.1)
	connectTimeout    = 10 * time.Second // for the whole MPA Reply
	maxReads          = 0x3FFE           // 14 bits, all ones means "not negotiated" (RFC 6581 §9.1)
)

// A Device is one software iWARP RNIC. Its methods may be called from any goroutine.
type Device struct {
	cfg   DeviceConfig // set once
	stags stagTable    // has its own locks

	atomics sync.Mutex // held while an atomic operation is done; before MR.mu
}

// Caps says what a provider can do, so that a ULP asks rather than assumes.
type Caps struct {
	Reliable       bool // messages arrive once, in order, or the QP fails
	RDMARead       bool // OpRead is served
	RemoteInval    bool // OpSendInvalidate is served
	Immediate      bool // OpImmediate is served
	Atomics        bool // the atomic operations are served: atomic among all QPs of the device, and nothing else
	MaxIRD, MaxORD int
	MaxMessage     uint64 // octets of one Send, Write or Read
}

// Open returns a software iWARP RNIC.
func Open(cfg DeviceConfig) *Device {
	cfg.MaxIRD = readDepth(cfg.MaxIRD)
	cfg.MaxORD = readDepth(cfg.MaxORD)
	if cfg.MaxHandshakes <= 0 {
		cfg.MaxHandshakes = defaultHandshakes
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	return &Device{cfg: cfg}
}

// readDepth is a depth of the read queues as asked for, made sane.
func readDepth(n int) int {
	if n <= 0 {
		return defaultReads
	}
	return min(n, maxReads)
}

// Caps returns what the device can do.
func (d *Device) Caps() Caps {
	return Caps{Reliable: true, RDMARead: true, RemoteInval: true, Immediate: d.cfg.Extensions, Atomics: d.cfg.Extensions,
		MaxIRD: d.cfg.MaxIRD, MaxORD: d.cfg.MaxORD, MaxMessage: 1<<32 - 1}
}

// handshakeTimeout is the deadline of MPA start-up for one role.
func (d *Device) handshakeTimeout(role time.Duration) time.Duration {
	if d.cfg.HandshakeTimeout > 0 {
		return d.cfg.HandshakeTimeout
	}
	return role
}

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
// to guess and their reuse rare (RFC 5040 §8.1.1, R5040-211, R5040-250).
func (t *stagTable) insert(mr *MR) error {
	for range 64 {
		var b [4]byte
		rand.Read(b[:]) // never fails
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
