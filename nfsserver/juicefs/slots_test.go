// Slots for the records of calls: how a server gets one and keeps it.

package juicefs

import (
	"syscall"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// TestSlots: each server has its own slot. The slot of a server that has ended is free when its
// records have expired.
func TestSlots(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	now := time.Now()
	later := now.Add(slotAge)
	if a, b := claim(f.m, 1, now), claim(f.m, 2, now); a != 0 || b != 1 {
		t.Fatalf("slots %d and %d", a, b)
	}
	if n := claim(f.m, 3, later); n != 0 {
		t.Errorf("after %v slot %d", slotAge, n)
	}
	if n := claim(f.m, 4, later); n != 1 {
		t.Errorf("after %v slot %d", slotAge, n)
	}
	for i := range uint64(slots - 2) {
		claim(f.m, 5+i, later)
	}
	if n := claim(f.m, 1000, later); n != -1 {
		t.Errorf("all are taken, and slot %d was given", n)
	}
	if n := claim(f.m, 6, later); n != 3 {
		t.Errorf("slot %d for the owner of 3, who does not know of it", n)
	}
}

// An awayMeta is a service that leaves some queries unanswered.
type awayMeta struct {
	meta.Meta
	get, set bool // leaves these queries unanswered
	asked    int
}

func (m *awayMeta) SetXattr(ctx meta.Context, ino meta.Ino, name string, value []byte, flags uint32) syscall.Errno {
	if m.asked++; m.set {
		return syscall.EIO
	}
	return m.Meta.SetXattr(ctx, ino, name, value, flags)
}

func (m *awayMeta) GetXattr(ctx meta.Context, ino meta.Ino, name string, value *[]byte) syscall.Errno {
	if m.asked++; m.get {
		return syscall.EIO
	}
	return m.Meta.GetXattr(ctx, ino, name, value)
}

// TestSlotOfServiceThatIsAway: if the service does not answer, only the first slot is queried,
// because hours of queries would delay Close.
func TestSlotOfServiceThatIsAway(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	claim(f.m, 1, time.Now())
	for _, m := range []*awayMeta{{Meta: f.m, set: true}, {Meta: f.m, get: true}} {
		if n := claim(m, 2, time.Now()); n != -1 || m.asked > 2 {
			t.Errorf("slot %d after %d questions", n, m.asked)
		}
	}
}

// TestSlotIsKept: a live server keeps its slot. A server that was silent for too long takes another
// slot, and a server without a slot takes the first that is free.
func TestSlotIsKept(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	at := time.Now()
	var one, two calls
	one.owner, two.owner = 1, 2
	one.slot.Store(-1)
	two.slot.Store(-1)
	after := func(d time.Duration, renewed ...*calls) {
		at = at.Add(d)
		for _, k := range renewed {
			k.renew(f.m, at)
		}
	}
	is := func(what string, first, second int64) {
		t.Helper()
		if a, b := one.slot.Load(), two.slot.Load(); a != first || b != second {
			t.Errorf("%s: slots %d and %d, want %d and %d", what, a, b, first, second)
		}
	}
	after(0, &one, &two)
	is("at first", 0, 1)
	for range 3 {
		after(slotAge-time.Second, &one, &two)
	}
	is("renewed in time", 0, 1)
	after(slotAge, &two)
	if n := claim(f.m, 3, at); n != 0 {
		t.Fatalf("a third server gets slot %d", n)
	}
	after(0, &one, &two)
	is("one was silent, and its slot is another's", 2, 1)
}
