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

// JuiceFS keeps extended attributes of inode numbers that it never gives to anything, and asks for no inode. Each server has a slot, and in
// that pages, each an attribute of a number of its own, as Redis has all attributes of a number in one key: changes of one key
// take turns. The call says which page its record is in, so that who looks for it reads one page of each slot. A page has
// the records of its last calls; a server knows what is in its own, and writes it as a whole.
//
// Slots are taken in turn by making an attribute, and their number is bounded: a server takes the slot of one that has ended, or
// was killed, if that was so long ago that its records have expired. Where two take one slot at once, or a server that was stopped has lost its own,
// each undoes records of the other, and calls are not recognized, as without records; until one sees who has the slot, and takes another.
const (
	recordsIno meta.Ino = 0x7FFFFFFE_00000000 // of the slots; pages follow it

	slots       = 64
	pages       = 512
	pageRecords = 16
	recordSize  = 16 + 8 + 4 + 8

	pageName = "trusted.nfsrdma.calls"

	// recordAge is how long a record is good, by the clock of who looks: clocks agree to some seconds.
	recordAge = 2 * time.Minute
	// slotRenewed is how often a server says that it has its slot, slotAge after what time of silence it is another's: longer than its records are
	// good, and no longer than a server that ends every few seconds after its start takes to use up all slots.
	slotRenewed = 30 * time.Second
	slotAge     = 4 * time.Minute
)

// A record is of a call that is about to change names.
type record struct {
	sum   [16]byte
	ino   meta.Ino // what is removed, moved or linked
	nlink uint32   // before
	at    time.Time
}

func (r *record) append(b []byte) []byte {
	b = append(b, r.sum[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.ino))
	b = binary.BigEndian.AppendUint32(b, r.nlink)
	return append(b, encodeTime(r.at)...)
}

// parseRecord is of recordSize bytes.
func parseRecord(b []byte) (r record) {
	r.sum = [16]byte(b)
	r.ino = meta.Ino(binary.BigEndian.Uint64(b[16:]))
	r.nlink = binary.BigEndian.Uint32(b[24:])
	r.at = decodeTime(b[28:])
	return r
}

// A callPage is the newest records of the calls that belong to it, the oldest first.
type callPage struct {
	mu      sync.Mutex // held while it is written, so that what is stored is never older than what was written before
	records []record
}

// calls are the records of a server.
type calls struct {
	owner uint64       // drawn, so that a server knows its slot from that of another one
	slot  atomic.Int64 // -1: none are written
	pages [pages]callPage

	stop, stopped chan struct{} // of renewLoop; nil: it does not run
}

func slotName(n int64) string { return fmt.Sprint(pageName, ".", n) }

// pageIno is the number that has a page of a slot.
func pageIno(slot int64, page int) meta.Ino {
	return recordsIno + 1 + meta.Ino(slot)*pages + meta.Ino(page)
}

// start takes a slot and keeps it. Where none is free, or the service does not answer, calls are not recorded until there is one.
func (k *calls) start(m meta.Meta) {
	k.owner = rand.Uint64()
	k.slot.Store(claim(m, k.owner, time.Now()))
	k.stop, k.stopped = make(chan struct{}), make(chan struct{})
	go k.renewLoop(m)
}

// close ends renewLoop. The slot stays as it is: its records are possibly looked for.
func (k *calls) close() {
	if k.stop != nil {
		close(k.stop)
		<-k.stopped
	}
}

// claim returns a slot that nobody has now, or that is the owner's since a call whose answer was
// lost; -1: there is none, or the service does not answer, which is found out once: for each slot
// it would take as long again as the service's client tries, and Close waits for it.
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

// renewLoop says that the slot is in use, also of a server that is idle.
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

// renew says that the slot is in use, or takes another one where it is another server's. What fails is done by the next one.
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

// slotOf is what is stored of a slot that owner has, and slotAt who has had a slot when.
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

// encodeTime and decodeTime are of a time in records and slots.
func encodeTime(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.Unix())) }
func decodeTime(b []byte) time.Time { return time.Unix(int64(binary.BigEndian.Uint64(b)), 0) }

// recordOf is the sum and the page of a call's record.
func (f *FS) recordOf(op byte, id *nfsserver.CallID) (sum [16]byte, page int) {
	mac := f.mac(op, id, 0)
	return [16]byte(mac[:]), int(binary.BigEndian.Uint16(mac[16:])) % pages
}

// begin records a call that is about to change names of n; end is told what has become of that. A record that cannot be written is
// none, and the call goes on as without.
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

// change changes the records of a page and writes it.
func (k *calls) change(m meta.Meta, number int, do func(*callPage)) {
	p := &k.pages[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	do(p)
	slot := k.slot.Load()
	if slot < 0 {
		return
	}
	b := make([]byte, 1, 1+pageRecords*recordSize) // a service takes no empty value; the first byte is the version
	for i := range p.records {
		b = p.records[i].append(b)
	}
	m.SetXattr(system, pageIno(slot, number), pageName, b, 0)
}

// find looks for the record that another server has of a call which has moved.
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
		case no == meta.ENOATTR: // possibly a slot that nobody has had, and then there are none after it
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

// search looks for a record in what is stored of a page.
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
