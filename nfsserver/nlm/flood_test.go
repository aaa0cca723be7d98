// Clients that take all they can.

package nlm

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A counted counts the Set calls on a file. The file's lock guards it.
type counted struct {
	nfsserver.FileLocks
	sets int
}

func (c *counted) Set(start, end uint64, t nfsserver.LockType) error {
	c.sets++
	return c.FileLocks.Set(start, end, t)
}

// TestReleaseCostsWhatItChanges: releasing a lock costs no more if the file has many other locks,
// which any client can make.
func TestReleaseCostsWhatItChanges(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	a := r.tcp("a", rootCred)
	fh := a.file("/disk", "f")
	const many = 2000
	for i := range uint64(many) {
		a.want("LOCK", a.lock(fh, 1, 2*i, 1, i%2 == 0), nlm4.Granted)
	}
	a.want("LOCK of another", a.lock(fh, 2, 2*many, 1, true), nlm4.Granted)
	a.want("a share of another", a.lock(fh, 2, 2, 1, false), nlm4.Granted)
	r.locks.mu.Lock()
	var f *file
	for _, f = range r.locks.files {
	}
	r.locks.mu.Unlock()
	f.mu.Lock()
	c := &counted{FileLocks: f.kernel}
	f.kernel = c
	f.mu.Unlock()
	for _, step := range []struct {
		what string
		svid int32
		most int
	}{{"of two", 2, 1}, {"of many", 1, 1}} {
		f.mu.Lock()
		c.sets = 0
		f.mu.Unlock()
		a.want("UNLOCK "+step.what, a.unlock(fh, step.svid, 0, 0), nlm4.Granted)
		f.mu.Lock()
		if c.sets != step.most {
			t.Errorf("UNLOCK %s: %d calls of the file system, want %d", step.what, c.sets, step.most)
		}
		f.mu.Unlock()
	}
}

// TestHostsOfOneAddress: a client that uses ever new names is remembered by only a few of them, in
// memory and on stable storage, so others have room.
func TestHostsOfOneAddress(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, Options{StateDir: state}, believeAll, false, nil)
	r.newFile("f", 0o666)
	p := r.tcp("a", rootCred)
	fh := p.file("/disk", "f")
	granted := 0
	for i := range 1000 {
		p.name = fmt.Sprint("host-", i)
		switch st := p.lock(fh, 1, uint64(i), 1, true); st {
		case nlm4.Granted:
			granted++
		case nlm4.DeniedNoLocks:
		default:
			t.Fatalf("LOCK %d: %v", i, st)
		}
	}
	most := r.locks.ledger.bounds.hostsAt
	if granted != most {
		t.Errorf("%d hosts have locks, want %d", granted, most)
	}
	r.end()
	var m monitor
	must.Succeed(t, m.load(state))
	defer m.close()
	if n := len(m.lost()); n != most {
		t.Errorf("%d hosts are to be notified, want %d", n, most)
	}
}
