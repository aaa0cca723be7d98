// Clients' locks when their server is killed, and restarts or stays away.

package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A locker is a client that calls a server's lock manager directly, and never reclaims a lock.
type locker struct {
	t    *testing.T
	rpc  *transport.Client
	name string
	fh   nfs3.FH // a file that all users may lock
}

func newLocker(t *testing.T, p *process, name, file string) *locker {
	t.Helper()
	c := dial(t, p.addr())
	root, err := c.MountHandle(t.Context(), "/vol")
	if err != nil {
		t.Fatalf("MountHandle: %v", err)
	}
	found, err := c.Lookup(t.Context(), root, file)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	rpc, err := transport.DialTCP(t.Context(), p.addr(), transport.ClientConfig{Cred: transport.Cred{Flavor: 1, Machine: name}})
	if err != nil {
		t.Fatalf("DialTCP: %v", err)
	}
	t.Cleanup(func() { rpc.Close() })
	return &locker{t, rpc, name, found.FH}
}

// lock requests a lock of the first byte, without waiting.
func (l *locker) lock() nlm4.Status {
	l.t.Helper()
	args := nlm4.LockArgs{Cookie: []byte("cookie"), Exclusive: true, Lock: nlm4.Lock{Caller: []byte(l.name), FH: l.fh.Bytes(), Owner: []byte("owner"), Svid: 1, Length: 1}}
	p := transport.Proc{Prog: nlm4.Program, Vers: nlm4.Version, Proc: nlm4.ProcLock, Name: "LOCK", MaxReply: 8 << 10}
	var res nlm4.Res
	if err := l.rpc.Call(l.t.Context(), &p, &args, &res, nil, 0); err != nil {
		l.t.Fatalf("Call: %v", err)
	}
	return res.Status
}

// held returns the files that a server lists as locked, except those with a call in progress.
func (p *process) held() (names []string) {
	p.t.Helper()
	out, err := run(p.t.Context(), "locks", "--json", "--control", p.control)
	var report struct {
		Locks []struct{ File, State string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &report)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for _, l := range report.Locks {
		if l.State == "held" {
			names = append(names, l.File)
		}
	}
	slices.Sort(names)
	return names
}

// sessions returns how many sessions the volume has.
func (c *cluster) sessions() int {
	c.t.Helper()
	m := meta.NewClient(c.url, meta.DefaultConf())
	defer func() { _ = m.Shutdown() }()
	list, err := m.ListSessions()
	if err != nil {
		c.t.Fatalf("ListSessions: %v", err)
	}
	return len(list)
}

// TestLocksOutliveTheServer: a program holds a lock through a server that is killed and restarted.
// It still has the lock afterwards, and a waiting client of another server gets it only after its
// release. Locks that the client does not reclaim are free after the grace period. (The heartbeat
// is so long that no session ends during the test, and that a restart is in time on any machine.)
func TestLocksOutliveTheServer(t *testing.T) { onEach(t, locksOutliveServer, "--heartbeat", "10m") }

func locksOutliveServer(t *testing.T, c *cluster) {
	c.mount("timeo=100", 0)
	c.mount("timeo=100", 1)
	c.file("locked", "")
	c.file("other", "")
	c.file("unclaimed", "")
	gone, next := newLocker(t, c.servers[0], "gone", "unclaimed"), newLocker(t, c.servers[1], "next", "unclaimed")
	if st := gone.lock(); st != nlm4.Granted {
		t.Fatalf("LOCK: %v", st)
	}
	holder, waiter := startWorker(t, "hold", filepath.Join(c.mounts[0], "locked")), startWorker(t, "hold", filepath.Join(c.mounts[1], "locked"))
	holder.do(1)
	holder.await(1)
	waiter.do(1)
	var before []string
	await(t, "the server tells of both locks", func() bool { before = c.servers[0].held(); return len(before) == 2 })
	c.servers[0].kill()
	if st := next.lock(); st != nlm4.Denied {
		t.Errorf("what clients of a server that was killed may reclaim, at another server: %v", st)
	}
	c.servers[0].start()
	if n := c.sessions(); n != 2 {
		t.Errorf("%d sessions of two servers", n)
	}
	later := startWorker(t, "hold", filepath.Join(c.mounts[0], "other"))
	later.do(1)
	later.await(1) // granted when the grace period is over
	if waiter.has(1) {
		t.Error("a program of another server has a lock that was to be reclaimed")
	}
	await(t, "the server tells of the lock that was reclaimed, and of the later one", func() bool {
		now := c.servers[0].held()
		return len(now) == 2 && slices.ContainsFunc(now, func(f string) bool { return slices.Contains(before, f) })
	})
	await(t, "what nobody has reclaimed is free", func() bool { return next.lock() == nlm4.Granted })
	holder.do(1)
	holder.await(2)
	waiter.await(1)
	waiter.do(1)
	waiter.await(2)
}

// TestLocksOfServerThatStaysAway: a dead server's locks are free once its session has ended, and
// the volume keeps nothing of that session.
func TestLocksOfServerThatStaysAway(t *testing.T) {
	// The heartbeat must not be shorter. If opening a volume takes longer, as on a busy machine,
	// JuiceFS refreshes the session while creating it, which then fails.
	onEach(t, locksOfServerAway, "--heartbeat", "12s")
}

func locksOfServerAway(t *testing.T, c *cluster) {
	c.mount("timeo=100", 1)
	c.file("locked", "")
	gone := newLocker(t, c.servers[0], "gone", "locked")
	if st := gone.lock(); st != nlm4.Granted {
		t.Fatalf("LOCK: %v", st)
	}
	waiter := startWorker(t, "hold", filepath.Join(c.mounts[0], "locked"))
	waiter.do(1)
	c.servers[0].kill()
	waiter.await(1)
	await(t, "the session of the server that was killed has ended", func() bool { return c.sessions() == 1 })
}

// endSession ends a running server's session, as another server does after five missed heartbeats.
func (c *cluster) endSession(p *process) {
	c.t.Helper()
	m := meta.NewClient(c.url, meta.DefaultConf())
	list, err := m.ListSessions()
	if e := errors.Join(err, m.Shutdown()); e != nil {
		c.t.Fatal(e)
	}
	ended := false
	for _, in := range list {
		if in.ProcessID != p.cmd.Process.Pid {
			continue
		}
		conf := meta.DefaultConf()
		conf.Sid = in.Sid
		m = meta.NewClient(c.url, conf)
		_, err := m.Load(false)
		must.Succeed(c.t, err, m.CloseSession(), m.Shutdown())
		ended = true
	}
	if !ended {
		c.t.Fatal("the server has no session")
	}
}

// TestLocksOfServerTakenForDead: a server that returns after five missed heartbeats ends if clients
// have locks through it, because others may have taken these locks. After its restart, it grants no
// lock that others hold. A server without locks continues.
func TestLocksOfServerTakenForDead(t *testing.T) { onEach(t, locksOfServerTakenForDead) }

func locksOfServerTakenForDead(t *testing.T, c *cluster) {
	dialRDMA(t, c.servers[0]).create("locked")
	lost, next := newLocker(t, c.servers[0], "lost", "locked"), newLocker(t, c.servers[1], "next", "locked")
	if st := lost.lock(); st != nlm4.Granted {
		t.Fatalf("LOCK: %v", st)
	}
	if st := next.lock(); st != nlm4.Denied {
		t.Fatalf("LOCK of what another has, at another server: %v", st)
	}
	c.endSession(c.servers[1])
	await(t, "the session of a server without locks is there again", func() bool { return c.sessions() == 2 })
	c.endSession(c.servers[0])
	if st := next.lock(); st != nlm4.Granted {
		t.Errorf("LOCK of what was freed: %v", st)
	}
	select {
	case <-c.servers[0].ended:
	case <-time.After(patience):
		t.Fatal("the server goes on without the locks of its clients")
	}
	c.servers[0].start()
	again := newLocker(t, c.servers[0], "lost", "locked")
	await(t, "grace is over", func() bool { return again.lock() != nlm4.DeniedGracePeriod })
	if st := again.lock(); st != nlm4.Denied {
		t.Errorf("LOCK of what another has had since: %v", st)
	}
	if st := next.lock(); st != nlm4.Granted {
		t.Errorf("LOCK of what it has: %v", st)
	}
}
