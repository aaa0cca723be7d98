// Records of calls, in the volume's metadata.

package juicefs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// JuiceFS stores extended attributes also under unused inode numbers, without checking for an
// inode. Each server has a slot with pages, and each page is an attribute under a number of its
// own. Redis stores all attributes of a number in one key, and changes of one key take turns. The
// call determines the page of its record, so a search reads one page in each slot. A page has the
// records of its most recent calls. A server knows its own pages and writes each as a whole.
//
// Servers take slots in order by creating an attribute; the number of slots is bounded. A server
// takes over the slot of an ended or killed one once its records have expired. Two servers may take
// one slot at once, or a stopped server may have lost its slot without knowing. Then each
// overwrites records of the other, and calls are not recognized, as without records, until one sees
// the other as the owner and takes another slot.
const (
	recordsIno meta.Ino = 0x7FFFFFFE_00000000 // for the slots; the pages follow

	slots       = 64
	pages       = 512
	pageRecords = 16
	recordSize  = 16 + 8 + 4 + 8

	pageName = "trusted.nfsrdma.calls"

	// recordAge is how long a record is valid, by the reader's clock: clocks agree within some
	// seconds.
	recordAge = 2 * time.Minute
	// slotRenewed is the interval of renewing a slot. After slotAge without renewal another server
	// may take it. That is longer than its records are valid. It is short enough that a server
	// restarting every few seconds does not use up all slots.
	slotRenewed = 30 * time.Second
	slotAge     = 4 * time.Minute
)

// A record describes a call that is about to change names.
type record struct {
	sum   [16]byte
	ino   meta.Ino // the object to be removed, moved or linked
	nlink uint32   // before the call
	at    time.Time
}

func (r *record) append(b []byte) []byte {
	b = append(b, r.sum[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.ino))
	b = binary.BigEndian.AppendUint32(b, r.nlink)
	return append(b, encodeTime(r.at)...)
}

// parseRecord parses recordSize bytes.
func parseRecord(b []byte) (r record) {
	r.sum = [16]byte(b)
	r.ino = meta.Ino(binary.BigEndian.Uint64(b[16:]))
	r.nlink = binary.BigEndian.Uint32(b[24:])
	r.at = decodeTime(b[28:])
	return r
}

// A callPage holds the newest records of its calls, oldest first.
type callPage struct {
	mu      sync.Mutex // held during the write, so stored pages never go back to an older state
	records []record
}

// calls are a server's records of executed calls.
type calls struct {
	owner uint64       // random, to distinguish our slot from another server's
	slot  atomic.Int64 // -1: no records are written
	pages [pages]callPage

	stop, stopped chan struct{} // of renewLoop; nil: not running
}

func slotName(n int64) string { return fmt.Sprint(pageName, ".", n) }

// pageIno returns the number that holds a page of a slot.
func pageIno(slot int64, page int) meta.Ino {
	return recordsIno + 1 + meta.Ino(slot)*pages + meta.Ino(page)
}

// start takes a slot and keeps it. While none is free, or the service does not answer, calls are
// not recorded.
func (k *calls) start(m meta.Meta) {
	k.owner = rand.Uint64()
	k.slot.Store(claim(m, k.owner, time.Now()))
	k.stop, k.stopped = make(chan struct{}), make(chan struct{})
	go k.renewLoop(m)
}

// close ends renewLoop. It leaves the slot, because other servers may still need its records.
func (k *calls) close() {
	if k.stop != nil {
		close(k.stop)
		<-k.stopped
	}
}

// claim returns a slot that is free, or already the owner's after a call with a lost reply; -1:
// there is none, or the service does not answer. It stops at the first unanswered query: each
// further one would take as long again, and Close waits for it.
func claim(m meta.Meta, owner uint64, now time.Time) int64 {
	for slot := range int64(slots) {
		no := m.SetXattr(system, recordsIno, slotName(slot), slotOf(owner, now), meta.XattrCreate)
		if no == syscall.EEXIST {
			has, at, known := slotAt(m, slot)
			if !known {
				return -1
			}
			if has != owner && now.Sub(at) < slotAge {
				continue
			}
			no = m.SetXattr(system, recordsIno, slotName(slot), slotOf(owner, now), meta.XattrReplace)
		}
		if no != 0 {
			return -1
		}
		return slot
	}
	return -1
}

// renewLoop renews the slot, also for an idle server.
func (k *calls) renewLoop(m meta.Meta) {
	defer close(k.stopped)
	tick := time.NewTicker(slotRenewed)
	defer tick.Stop()
	for {
		select {
		case <-k.stop:
			return
		case now := <-tick.C:
			k.renew(m, now)
		}
	}
}

// renew renews the slot, or takes another if another server has it. After an error the next renewal
// tries again.
func (k *calls) renew(m meta.Meta, now time.Time) {
	slot := k.slot.Load()
	if slot >= 0 {
		owner, _, known := slotAt(m, slot)
		if !known {
			return
		}
		if owner == k.owner {
			m.SetXattr(system, recordsIno, slotName(slot), slotOf(k.owner, now), 0)
			return
		}
	}
	k.slot.Store(claim(m, k.owner, now))
}

// slotOf encodes a slot's owner and time, and slotAt reads them.
func slotOf(owner uint64, at time.Time) []byte {
	return binary.BigEndian.AppendUint64(encodeTime(at), owner)
}

func slotAt(m meta.Meta, slot int64) (owner uint64, at time.Time, known bool) {
	var b []byte
	if m.GetXattr(system, recordsIno, slotName(slot), &b) != 0 || len(b) != 16 {
		return 0, at, false
	}
	return binary.BigEndian.Uint64(b[8:]), decodeTime(b), true
}

// encodeTime and decodeTime convert times in records and slots, in seconds.
func encodeTime(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.Unix())) }
func decodeTime(b []byte) time.Time { return time.Unix(int64(binary.BigEndian.Uint64(b)), 0) }

// recordOf returns the sum and the page for a call's record.
func (f *FS) recordOf(op byte, id *nfsserver.CallID) (sum [16]byte, page int) {
	mac := f.mac(op, id, 0)
	return [16]byte(mac[:]), int(binary.BigEndian.Uint16(mac[16:])) % pages
}

// begin records a call about to change names of n. The caller passes the result to end, which
// removes the record of a refused change. If the record cannot be written the call continues
// without it.
func (k *calls) begin(f *FS, op byte, id *nfsserver.CallID, n *inode) (end func(no syscall.Errno)) {
	if k.slot.Load() < 0 || id == nil {
		return func(syscall.Errno) {}
	}
	now := f.now()
	sum, number := f.recordOf(op, id)
	k.change(f.m, number, func(p *callPage) {
		if len(p.records) == pageRecords {
			p.records = slices.Delete(p.records, 0, 1)
		}
		p.records = append(p.records, record{sum, n.ino, n.attr.Nlink, now})
	})
	return func(no syscall.Errno) {
		if refused(no) {
			k.change(f.m, number, func(p *callPage) {
				p.records = slices.DeleteFunc(p.records, func(r record) bool { return r.sum == sum })
			})
		}
	}
}

// change modifies the records of a page and writes it.
func (k *calls) change(m meta.Meta, number int, do func(*callPage)) {
	p := &k.pages[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	do(p)
	slot := k.slot.Load()
	if slot < 0 {
		return
	}
	// Services refuse empty values. The first byte is the version.
	b := make([]byte, 1, 1+pageRecords*recordSize)
	for i := range p.records {
		b = p.records[i].append(b)
	}
	m.SetXattr(system, pageIno(slot, number), pageName, b, 0)
}

// find searches for another server's record of a moved call.
func (k *calls) find(f *FS, op byte, id *nfsserver.CallID) (record, bool) {
	if id == nil || !id.Moved || f.readOnly {
		return record{}, false
	}
	sum, number := f.recordOf(op, id)
	own := k.slot.Load()
	for slot := range int64(slots) {
		var b []byte
		if slot == own {
			continue
		}
		switch no := f.m.GetXattr(system, pageIno(slot, number), pageName, &b); {
		case no == meta.ENOATTR: // maybe a slot never used; then no slot after it is used
			if f.m.GetXattr(system, recordsIno, slotName(slot), &b) == meta.ENOATTR {
				return record{}, false
			}
		case no != 0:
			return record{}, false
		default:
			if r, ok := search(b, sum, f.now()); ok {
				return r, true
			}
		}
	}
	return record{}, false
}

// search finds a record in a stored page.
func search(b []byte, sum [16]byte, now time.Time) (record, bool) {
	if len(b) == 0 || b[0] != 0 {
		return record{}, false
	}
	for b = b[1:]; len(b) >= recordSize; b = b[recordSize:] {
		if !bytes.Equal(b[:16], sum[:]) {
			continue
		}
		if r := parseRecord(b); now.Sub(r.at) < recordAge {
			return r, true
		}
	}
	return record{}, false
}
