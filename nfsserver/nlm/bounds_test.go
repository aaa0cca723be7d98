// Limits, messages without replies, shares, and clients that end.

package nlm

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// TestBounds: a client that takes as many locks as it can leaves room for others, and has room
// again after releasing some.
func TestBounds(t *testing.T) {
	r := newRig(t, Options{}, believeAll, false, func(s *Service) {
		s.ledger.bounds = bounds{hosts: 5, hostsAt: 4, all: counts{4, 40, 4, 20}, one: counts{2, 20, 2, 10}}
	})
	for i := range 3 {
		r.newFile(fmt.Sprint(i), 0o666)
	}
	a, b := r.tcp("a", rootCred), r.tcp("b", rootCred)
	fh := a.file("/disk", "0")
	granted := 0
	for i := range 1000 {
		switch st := a.lock(fh, 1, uint64(2*i), 1, true); st {
		case nlm4.Granted:
			granted++
		case nlm4.DeniedNoLocks:
		default:
			t.Fatalf("LOCK %d: %v", i, st)
		}
	}
	if granted != 20 {
		t.Errorf("%d locks", granted)
	}
	b.want("another client", b.lock(fh, 1, 5000, 1, true), nlm4.Granted)
	a.want("release in the middle of one", a.unlock(fh, 1, 0, 30), nlm4.Granted)
	a.want("room again", a.lock(fh, 1, 0, 3, true), nlm4.Granted)
	a.want("UNLOCK that would make two of one", a.unlock(fh, 1, 1, 1), nlm4.Granted)
	a.want("UNLOCK of all", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	for i := range 10 {
		a.want("owners", a.lock(fh, int32(10+i), uint64(i), 1, true), nlm4.Granted)
	}
	a.want("one owner more", a.lock(fh, 99, 99, 1, true), nlm4.DeniedNoLocks)
	a.want("waiter", a.block(fh, 10, 1, 1, true), nlm4.Blocked)
	a.want("waiter", a.block(fh, 11, 2, 1, true), nlm4.Blocked)
	a.want("waiter", a.block(fh, 12, 0, 1, true), nlm4.DeniedNoLocks)
	a.want("files", a.lock(a.file("/disk", "1"), 10, 0, 0, true), nlm4.Granted)
	a.want("files", a.lock(a.file("/disk", "2"), 10, 0, 0, true), nlm4.DeniedNoLocks)
	for i, want := range []nlm4.Status{nlm4.Granted, nlm4.Granted, nlm4.DeniedNoLocks} {
		p := r.tcp(fmt.Sprint("host", i), rootCred)
		p.want("hosts at one address", p.lock(fh, 1, uint64(6000+i), 1, true), want)
	}
	long := r.tcp(string(make([]byte, maxHostName+1)), rootCred)
	long.want("a long name", long.lock(fh, 1, 7000, 1, true), nlm4.DeniedNoLocks)
	for _, p := range []*peer{a, b} {
		p.do(nlm4.Program, nlm4.Version, nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte(p.name)}, void{})
	}
	b.want("after FREE_ALL", b.lock(fh, 1, 0, 4000, true), nlm4.Granted)
	st, _ := a.test(fh, 1, 6000, 1, true)
	a.want("another's after FREE_ALL", st, nlm4.Denied)
}

// TestMessages: the results of the _MSG procedures are sent as calls to the client's lock manager.
func TestMessages(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	p := r.tcp("a", rootCred)
	fh := p.file("/disk", "f")
	p.want("LOCK", p.lock(fh, 1, 0, 10, true), nlm4.Granted)
	lock := p.about(fh, 2, 5, 1)
	for _, m := range []struct {
		proc uint32
		args xdr.Marshaler
		want nlm4.Status
	}{
		{nlm4.ProcTestMsg, &nlm4.TestArgs{Cookie: []byte("t"), Lock: lock}, nlm4.Denied},
		{nlm4.ProcLockMsg, &nlm4.LockArgs{Cookie: []byte("l"), Lock: lock, Block: true}, nlm4.Blocked},
		{nlm4.ProcCancelMsg, &nlm4.CancelArgs{Cookie: []byte("c"), Lock: lock, Block: true}, nlm4.Granted},
		{nlm4.ProcUnlockMsg, &nlm4.UnlockArgs{Cookie: []byte("u"), Lock: lock}, nlm4.Granted},
		{nlm4.ProcGrantedMsg, &nlm4.TestArgs{Cookie: []byte("g"), Lock: lock}, nlm4.Denied},
	} {
		p.do(nlm4.Program, nlm4.Version, m.proc, m.args, void{})
		res := await(t, fmt.Sprint("result of procedure ", m.proc), r.daemon.results)
		p.want(fmt.Sprint("procedure ", m.proc), res.Status, m.want)
		if len(res.Cookie) != 1 {
			t.Errorf("procedure %d: cookie %q", m.proc, res.Cookie)
		}
	}
	var res nlm4.Res
	p.do(nlm4.Program, nlm4.Version, nlm4.ProcGranted, &nlm4.TestArgs{Lock: lock}, &res)
	p.want("GRANTED, which a server is not called", res.Status, nlm4.Denied)
	p.want("NM_LOCK", p.status(nlm4.ProcNMLock, &nlm4.LockArgs{Cookie: []byte("cookie"), Exclusive: true, Lock: p.about(fh, 3, 50, 1)}), nlm4.Granted)
}

// TestShares: access that one client denies cannot be taken by another, and access that one has
// taken cannot be denied.
func TestShares(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	a, b := r.tcp("a", rootCred), r.rdma("b", rootCred)
	fh := a.file("/disk", "f")
	share := func(p *peer, proc, mode, access uint32, want nlm4.Status) {
		t.Helper()
		var res nlm4.ShareRes
		p.do(nlm4.Program, nlm4.Version, proc, &nlm4.ShareArgs{Caller: []byte(p.name), FH: fh, Owner: []byte("o"), Mode: mode, Access: access}, &res)
		p.want(fmt.Sprintf("procedure %d mode %d access %d", proc, mode, access), res.Status, want)
	}
	share(a, nlm4.ProcShare, nlm4.ShareWrite, nlm4.ShareRead, nlm4.Granted)
	share(b, nlm4.ProcShare, 0, nlm4.ShareWrite, nlm4.Denied)
	share(b, nlm4.ProcShare, nlm4.ShareRead, 0, nlm4.Denied)
	share(b, nlm4.ProcShare, 0, nlm4.ShareRead, nlm4.Granted)
	share(a, nlm4.ProcShare, nlm4.ShareRead, nlm4.ShareRead, nlm4.Denied)
	share(b, nlm4.ProcUnshare, 0, nlm4.ShareRead, nlm4.Granted)
	share(b, nlm4.ProcUnshare, 0, nlm4.ShareRead, nlm4.Granted)
	share(a, nlm4.ProcShare, nlm4.ShareRead, nlm4.ShareRead, nlm4.Granted)
	a.do(nlm4.Program, nlm4.Version, nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")}, void{})
	share(b, nlm4.ProcShare, 3, 3, nlm4.Granted)
	share(b, nlm4.ProcUnshare, 0, 0, nlm4.Granted)
	if u := r.count(); u != (counts{}) {
		t.Errorf("used although nothing is shared: %+v", u)
	}
}
