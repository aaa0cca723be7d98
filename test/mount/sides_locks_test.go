// Servers' answers about locks (NLM 4), to the questions in sides_probe_test.go.

package mount

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// An asker requests locks: two with one name are processes on one client. Linux's server
// distinguishes them by svid alone.
type asker struct {
	s    *sides
	fh   nfs3.FH
	name string
	svid int32
}

// locks asks about locks of a new file, in the name of three processes, two of them of one client.
func locks(ask func(s *sides, a, b, c asker) string) func(*sides) string {
	return func(s *sides) string {
		fh := s.lockFile("open")
		return ask(s, asker{s, fh, "one", 1}, asker{s, fh, "other", 2}, asker{s, fh, "other", 3})
	}
}

var lockFiles int

// lockFile makes a file.
func (s *sides) lockFile(export string) nfs3.FH {
	lockFiles++
	n, err := s.c.Create(s.ctx, s.root(export), fmt.Sprintf("locks-%d", lockFiles), nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o666}, nfs3.Verf{})
	if err != nil {
		panic(fmt.Sprintf("a file to lock: %v", err))
	}
	return n.FH
}

// on returns the same process with another file.
func (a asker) on(fh nfs3.FH) asker {
	a.fh = fh
	return a
}

func (a asker) about(off, n uint64) nlm4.Lock {
	return nlm4.Lock{Caller: []byte(a.name), FH: a.fh.Bytes(), Owner: []byte(a.name), Svid: a.svid, Offset: off, Length: n}
}

// call makes a call with its own cookie, again for as long as the server is in its period of grace.
func (a asker) call(c *nfsclient.Client, proc uint32, args func(cookie []byte) xdr.Marshaler) string {
	lockFiles++
	for {
		var res nlm4.Res
		err := c.CallLockManager(a.s.ctx, proc, args(fmt.Appendf(nil, "%08d", lockFiles)), &res)
		if err != nil {
			if errors.Is(err, nfsclient.ErrNoLockManager) {
				return "no lock manager"
			}
			return err.Error()
		}
		if res.Status != nlm4.DeniedGracePeriod || !a.s.grace {
			a.s.grace = false
			return strings.TrimPrefix(res.Status.String(), "NLM4_")
		}
		select {
		case <-a.s.ctx.Done():
			return a.s.ctx.Err().Error()
		case <-time.After(time.Second):
		}
	}
}

// as sends LOCK in the name of a user; how has "x" for exclusive, "w" to wait, "r" to reclaim.
func (a asker) as(c *nfsclient.Client, how string, off, n uint64) string {
	return a.call(c, nlm4.ProcLock, func(cookie []byte) xdr.Marshaler {
		return &nlm4.LockArgs{Cookie: cookie, Block: strings.Contains(how, "w"), Exclusive: strings.Contains(how, "x"),
			Reclaim: strings.Contains(how, "r"), Lock: a.about(off, n)}
	})
}

// lock sends LOCK in the name of root.
func (a asker) lock(how string, off, n uint64) string { return a.as(a.s.c, how, off, n) }

func (a asker) unlock(off, n uint64) string {
	return a.call(a.s.c, nlm4.ProcUnlock, func(cookie []byte) xdr.Marshaler { return &nlm4.UnlockArgs{Cookie: cookie, Lock: a.about(off, n)} })
}

// cancel sends CANCEL of a waiting request for an exclusive lock.
func (a asker) cancel(off, n uint64) string {
	return a.call(a.s.c, nlm4.ProcCancel, func(cookie []byte) xdr.Marshaler {
		return &nlm4.CancelArgs{Cookie: cookie, Block: true, Exclusive: true, Lock: a.about(off, n)}
	})
}

// test sends TEST of an exclusive lock, and returns the conflicting lock.
func (a asker) test(off, n uint64) string {
	var res nlm4.TestRes
	args := nlm4.TestArgs{Cookie: []byte("test"), Exclusive: true, Lock: a.about(off, n)}
	if err := a.s.c.CallLockManager(a.s.ctx, nlm4.ProcTest, &args, &res); err != nil {
		return err.Error()
	}
	text := strings.TrimPrefix(res.Status.String(), "NLM4_")
	if h := &res.Holder; res.Status == nlm4.Denied {
		text += fmt.Sprintf(", %d bytes from %d, exclusive %v", h.Length, h.Offset, h.Exclusive)
		if h.Svid == 1 {
			text += ", and whose"
		}
	}
	return text
}

// words joins the results of several calls.
func words(all ...string) string { return strings.Join(all, " ") }

var lockQuestions = []question{
	{"LOCK, exclusive, then beside it exclusive, shared, of other bytes, to wait", locks(func(_ *sides, a, b, c asker) string {
		return words(a.lock("x", 10, 10), b.lock("x", 19, 1), b.lock("", 0, 11), b.lock("x", 20, 0), c.lock("xw", 15, 1), c.cancel(15, 1))
	})},
	{"LOCK, shared, then beside it shared, exclusive", locks(func(_ *sides, a, b, c asker) string {
		return words(a.lock("", 10, 10), b.lock("", 0, 0), c.lock("x", 12, 1))
	})},
	{"LOCK, twice, then shared in place of exclusive, then beside it shared", locks(func(_ *sides, a, b, _ asker) string {
		return words(a.lock("x", 0, 10), a.lock("x", 0, 10), a.lock("", 0, 10), b.lock("", 0, 10))
	})},
	{"UNLOCK, of a part, then LOCK of it and of the rest by another, then UNLOCK of what nobody has", locks(func(_ *sides, a, b, c asker) string {
		return words(a.lock("x", 0, 10), a.unlock(2, 3), b.lock("x", 2, 3), b.lock("x", 5, 1), c.unlock(0, 0))
	})},
	{"LOCK to wait twice, CANCEL twice", locks(func(_ *sides, a, b, _ asker) string {
		return words(a.lock("x", 0, 10), b.lock("xw", 0, 10), b.lock("xw", 0, 10), b.cancel(0, 10), b.cancel(0, 10))
	})},
	{"two who wait for each other, LOCK of the second", locks(func(_ *sides, a, b, _ asker) string {
		a.lock("x", 0, 1)
		b.lock("x", 1, 1)
		defer a.cancel(1, 1)
		return words(a.lock("xw", 1, 1), b.lock("xw", 0, 1))
	})},
	{"two processes of one client who wait for each other, on two files, LOCK of the second", locks(func(s *sides, _, b, c asker) string {
		other := s.lockFile("open")
		b.lock("x", 0, 0)
		c.on(other).lock("x", 0, 0)
		defer b.on(other).cancel(0, 0)
		return words(b.on(other).lock("xw", 0, 0), c.lock("xw", 0, 0))
	})},
	{"three who wait for each other, LOCK of the third", locks(func(_ *sides, a, b, c asker) string {
		a.lock("x", 0, 1)
		b.lock("x", 1, 1)
		c.lock("x", 2, 1)
		defer a.cancel(1, 1)
		defer b.cancel(2, 1)
		return words(a.lock("xw", 1, 1), b.lock("xw", 2, 1), c.lock("xw", 0, 1))
	})},
	{"two who share and both want it alone, LOCK of the second", locks(func(_ *sides, a, b, _ asker) string {
		a.lock("", 0, 1)
		b.lock("", 0, 1)
		defer a.cancel(0, 1)
		return words(a.lock("xw", 0, 1), b.lock("xw", 0, 1))
	})},
	{"TEST, who has it", locks(func(_ *sides, a, b, _ asker) string {
		return words(a.lock("x", 10, 10), b.test(0, 0))
	})},
	{"LOCK, reclaim after the period of grace", locks(func(_ *sides, a, _, _ asker) string { return a.lock("xr", 0, 0) })},
	{"LOCK from beyond the last byte", locks(func(_ *sides, a, _, _ asker) string { return a.lock("x", 1<<63, 1) })},
	{"LOCK on a read-only export, shared, exclusive", func(s *sides) string {
		n, err := s.c.Lookup(s.ctx, s.root("ro"), "secret")
		if err != nil {
			return verdict(err)
		}
		a := asker{s, n.FH, "one", 1}
		return words(a.lock("", 0, 1), a.lock("x", 0, 1))
	}},
	{"LOCK of a file that its caller cannot read", func(s *sides) string {
		n, err := s.c.Lookup(s.ctx, s.root("open"), "secret")
		if err != nil {
			return verdict(err)
		}
		return asker{s, n.FH, "one", 1}.as(s.as(1000), "", 0, 1)
	}},
	{"LOCK of a directory", func(s *sides) string { return asker{s, s.root("open"), "one", 1}.lock("", 0, 1) }},
	{"LOCK of a file that was removed", func(s *sides) string {
		fh := s.lockFile("open")
		if err := s.c.Remove(s.ctx, s.root("open"), fmt.Sprintf("locks-%d", lockFiles)); err != nil {
			return verdict(err)
		}
		return asker{s, fh, "one", 1}.lock("x", 0, 1)
	}},
}
