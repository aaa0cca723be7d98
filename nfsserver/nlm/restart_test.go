// Restarts: after a restart of the server clients reclaim their locks; a client's restart frees its
// locks.

package nlm

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TestRestart: clients with locks are notified by each of the server's names, with a larger number.
// During the grace period they reclaim locks, and no other client gets a lock.
func TestRestart(t *testing.T) {
	state := t.TempDir()
	o := Options{StateDir: state, Names: []string{"server"}, Grace: time.Hour}
	r := newRig(t, o, believeAll, false, nil)
	r.newFile("f", 0o666)
	first := r.locks.monitor.number()
	p := r.tcp("client", rootCred)
	fh := p.file("/disk", "f")
	p.want("no grace without clients", p.lock(fh, 1, 0, 10, true), nlm4.Granted)
	reclaim := nlm4.LockArgs{Exclusive: true, Reclaim: true, Lock: p.about(fh, 1, 0, 10)}
	p.want("reclaim without a restart of what it has", p.lockArgs(&reclaim), nlm4.Granted)
	weak, more := reclaim, reclaim
	weak.Exclusive, more.Lock.Length = false, 11
	p.want("a part of what it is", p.lockArgs(&weak), nlm4.Granted)
	p.want("reclaim without a restart of more", p.lockArgs(&more), nlm4.DeniedGracePeriod)
	r.end()

	r.begin(o, believeAll, false, nil)
	for _, name := range []string{"server", "127.0.0.1"} {
		n := await(t, "SM_NOTIFY", r.daemon.notified)
		must.Equal(t, "name", string(n.Name), name)
		if n.State <= first {
			t.Errorf("%s: state %d, want one after %d", name, n.State, first)
		}
		if n.State&1 != 1 {
			t.Errorf("%s: state %d, want an odd one", name, n.State)
		}
	}
	p, other := r.tcp("client", rootCred), r.tcp("other", rootCred)
	other.want("new in grace", other.lock(fh, 1, 20, 1, true), nlm4.DeniedGracePeriod)
	st, _ := other.test(fh, 1, 20, 1, true)
	other.want("TEST in grace", st, nlm4.DeniedGracePeriod)
	stranger := reclaim
	stranger.Lock.Caller = []byte("other")
	other.want("reclaim of who had none", other.lockArgs(&stranger), nlm4.DeniedGracePeriod)
	p.want("reclaim", p.lockArgs(&reclaim), nlm4.Granted)
	r.locks.graceEnd.Store(nil)
	other.want("in the way of what was reclaimed", other.lock(fh, 1, 9, 1, true), nlm4.Denied)
	other.want("after grace", other.lock(fh, 1, 20, 1, true), nlm4.Granted)
	p.want("UNLOCK", p.unlock(fh, 1, 0, 0), nlm4.Granted)
	p.want("reclaim too late", p.lockArgs(&reclaim), nlm4.DeniedGracePeriod)
	r.end()
}

// TestClientsWithoutLocksAreForgotten: for clients without locks, the next start sends no notices
// and has no grace period.
func TestClientsWithoutLocksAreForgotten(t *testing.T) {
	state := t.TempDir()
	o := Options{StateDir: state}
	r := newRig(t, o, believeAll, false, func(s *Service) { s.ledger.bounds.forgotten = 0 })
	first := r.locks.monitor.number()
	r.newFile("f", 0o666)
	p, q := r.tcp("client", rootCred), r.tcp("other", rootCred)
	fh := p.file("/disk", "f")
	p.want("LOCK", p.lock(fh, 1, 0, 10, true), nlm4.Granted)
	q.want("LOCK", q.lock(fh, 1, 10, 10, true), nlm4.Granted)
	p.want("UNLOCK", p.unlock(fh, 1, 0, 10), nlm4.Granted)
	r.locks.sweep(time.Now())
	if _, err := New(r.srv, o); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), state) {
		t.Errorf("beside another server: %v, want %v, and %s in it", err, ErrInUse, state)
	}
	r.end()
	var m monitor
	must.Succeed(t, m.load(state), m.close())
	lost := hostKey{}
	for _, lost = range m.lost() {
	}
	must.Equal(t, "number of clients that are kept", len(m.lost()), 1)
	must.Equal(t, "name", lost.name, "other")
	must.Equal(t, "address", lost.addr, netip.MustParseAddr("127.0.0.1"))
	if err := os.WriteFile(filepath.Join(state, "locks.json"), []byte("{"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	var damaged monitor
	must.Succeed(t, damaged.load(state))
	defer damaged.close()
	n := damaged.number()
	if n&1 != 1 {
		t.Errorf("a file that is cut off: number %d, want an odd one", n)
	}
	if n < first {
		t.Errorf("a file that is cut off: number %d, want at least %d", n, first)
	}
	if lost := damaged.lost(); len(lost) != 0 {
		t.Errorf("a file that is cut off: clients %v, want none", lost)
	}
	if err := damaged.watch(lost); err != nil {
		t.Errorf("after a file that was cut off: %v", err)
	}
	damaged.close()
	if got := lostInNextRun(state); len(got) != 1 || got[0] != lost {
		t.Errorf("kept after a file that was cut off: %v, want %v", got, lost)
	}
}

// lostInNextRun returns the clients with locks that the next run would read from the state
// directory dir.
func lostInNextRun(dir string) []hostKey {
	var next monitor
	if err := next.load(dir); err != nil {
		panic(err)
	}
	defer next.close()
	return next.lost()
}

// TestNothingCanBeKept: without a writable state directory no client gets a lock. Once the
// directory is writable, each client gets its lock.
func TestNothingCanBeKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	// a file, because root could write to a read-only directory
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	var m monitor
	must.Succeed(t, m.load(dir))
	k := hostKey{netip.MustParseAddr("192.0.2.1"), 0, "client"}
	if err := m.watch(k); err == nil {
		t.Error("watch succeeds without a state directory")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	if err := m.watch(k); err != nil {
		t.Errorf("watch: %v", err)
	}
	m.close()
	if got := lostInNextRun(dir); len(got) != 1 || got[0] != k {
		t.Errorf("kept: %v, want %v", got, k)
	}
}

// TestSavedBeforeNotified: when a record counts as saved, its name too is on stable storage.
// Clients of the last run stay recorded until they are notified, even after the grace period.
func TestSavedBeforeNotified(t *testing.T) {
	synced := 0
	dir, k := t.TempDir(), hostKey{netip.MustParseAddr("192.0.2.1"), 0, "client"}
	first := monitor{sync: func(string) error { synced++; return nil }}
	m := monitor{sync: first.sync}
	must.Succeed(t, first.load(dir))
	before := synced
	if err := first.watch(k); err != nil || synced != before+1 {
		t.Errorf("watch: %v, %d syncs of the directory, want 1", err, synced-before)
	}
	first.close()
	must.Succeed(t, m.load(dir))
	defer m.close()
	none := func() map[hostKey]bool { return nil }
	for _, notified := range []bool{false, true} {
		if notified {
			m.noticesEnded()
		}
		if err := m.retain(none, true); err != nil {
			t.Fatalf("retain: %v", err)
		}
		if kept := len(m.lost()) == 1; kept == notified {
			t.Errorf("notified %v: kept %v, want %v", notified, kept, !notified)
		}
	}
	before = synced
	must.Succeed(t, m.retain(none, true))
	if synced != before {
		t.Errorf("%d syncs without a change, want 0", synced-before)
	}
}

// TestWatchBesideSweep: a sweep does not forget a client that arrives during the sweep.
func TestWatchBesideSweep(t *testing.T) {
	r := plainRig(t)
	const clients = 2000
	var come, swept sync.WaitGroup
	over := make(chan struct{})
	swept.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				r.locks.sweep(time.Now())
			}
		}
	})
	keyOf := func(i int) hostKey {
		return hostKey{netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 0, "client"}
	}
	for first := range 4 {
		come.Go(func() {
			for i := first; i < clients; i += 4 {
				if r.locks.ledger.enter(keyOf(i), ownerKey{}) == nil {
					t.Errorf("client %d: no owner", i)
				}
				if err := r.locks.monitor.watch(keyOf(i)); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
			}
		})
	}
	come.Wait()
	close(over)
	swept.Wait()
	r.locks.monitor.mu.Lock()
	defer r.locks.monitor.mu.Unlock()
	if got := len(r.locks.monitor.watched); got != clients {
		t.Errorf("%d clients are kept, want %d", got, clients)
	}
}

// TestNumberOfAStart: a start's number is odd, larger than the last, and positive.
func TestNumberOfAStart(t *testing.T) {
	for last, want := range map[int32]int32{1: 3, 6: 9, math.MaxInt32 - 2: math.MaxInt32, math.MaxInt32: 1} {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "locks.json"), fmt.Appendf(nil, `{"State":%d}`, last), 0o600))
		var m monitor
		must.Succeed(t, m.load(dir), m.close())
		if got := m.number(); got != want {
			t.Errorf("after start %d: number %d, want %d", last, got, want)
		}
	}
}

// TestNotifyFreesLocksOfItsSender: NOTIFY frees the locks of its sender, once, and no others.
func TestNotifyFreesLocksOfItsSender(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	p, q := r.tcp("client", rootCred), r.tcp("other", rootCred)
	fh := p.file("/disk", "f")
	p.want("LOCK", p.lock(fh, 1, 0, 10, true), nlm4.Granted)
	q.want("LOCK", q.lock(fh, 1, 10, 10, true), nlm4.Granted)
	q.want("LOCK that waits", q.block(fh, 2, 0, 10, true), nlm4.Blocked)
	home, away := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	notify := func(from netip.Addr, port uint16, name string, state int32) {
		t.Helper()
		r.locks.restarted(netip.AddrPortFrom(from, port), &nsm.StatChange{Name: []byte(name), State: state})
	}
	locked := func(why string, off uint64, want nlm4.Status) {
		t.Helper()
		st, _ := p.test(fh, 99, off, 1, true)
		p.want(why, st, want)
	}
	notify(away, 700, "client", 5)
	locked("from elsewhere", 0, nlm4.Denied)
	notify(home, 1024, "client", 5)
	locked("from any port", 0, nlm4.Denied)
	notify(home, 700, "nobody", 5)
	locked("of nobody", 0, nlm4.Denied)
	notify(home, 700, "Client.example.org", 5)
	if g := await(t, "GRANTED", r.daemon.granted); g.Lock.Svid != 2 {
		t.Errorf("GRANTED %+v", g)
	}
	locked("another client's", 10, nlm4.Denied)
	q.want("UNLOCK", q.unlock(fh, 2, 0, 0), nlm4.Granted)
	p.want("LOCK after it", p.lock(fh, 1, 0, 10, true), nlm4.Granted)
	notify(home, 700, "client", 5)
	locked("the same again", 0, nlm4.Denied)
	notify(netip.MustParseAddr("::ffff:127.0.0.1"), 700, "client", 7)
	locked("the next", 0, nlm4.Granted)
	// a NOTIFY over TCP comes from an unprivileged port, and is ignored
	p.want("LOCK", p.lock(fh, 1, 0, 10, true), nlm4.Granted)
	p.do(nsm.Program, nsm.Version, nsm.ProcNotify, &nsm.StatChange{Name: []byte("client"), State: 9}, void{})
	locked("over TCP", 0, nlm4.Denied)
	var res nsm.StatRes
	p.do(nsm.Program, nsm.Version, nsm.ProcStat, &nsm.StatChange{}, &res)
	if res.Result != nsm.Fail || res.State != r.locks.monitor.number() {
		t.Errorf("STAT: %+v", res)
	}
}

// TestUDP: a restart can be reported over UDP, but only from a reserved port.
func TestUDP(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	p := r.tcp("client", rootCred)
	fh := p.file("/disk", "f")
	p.want("LOCK", p.lock(fh, 1, 0, 10, true), nlm4.Granted)
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("net.ListenUDP: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.locks.ServeUDP(pc) }()
	call := func(c *net.UDPConn, state int32) {
		t.Helper()
		defer c.Close()
		reply := make([]byte, 100)
		c.SetReadDeadline(time.Now().Add(patience))
		_, err := c.Write(notifyCall("client", state))
		n := 0
		if err == nil {
			n, err = c.Read(reply)
		}
		must.Succeed(t, err)
		must.Equal(t, "length of the reply", n, 24)
		must.Equal(t, "XID", reply[3], 7)
		must.Equal(t, "direction", reply[7], 1)
	}
	c, err := net.DialUDP("udp", nil, pc.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatalf("net.DialUDP: %v", err)
	}
	call(c, 3)
	st, _ := p.test(fh, 2, 0, 0, true)
	p.want("after NOTIFY from any port", st, nlm4.Denied)
	for port := 1023; os.Geteuid() == 0; port-- {
		if c, err = net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, pc.LocalAddr().(*net.UDPAddr)); err == nil {
			call(c, 3)
			st, _ = p.test(fh, 2, 0, 0, true)
			p.want("after NOTIFY from a reserved port", st, nlm4.Granted)
			break
		}
	}
	r.locks.Close()
	if err := await(t, "the end", ended); err != nil {
		t.Errorf("await: %v", err)
	}
}

// notifyCall returns a call of NOTIFY as a datagram.
func notifyCall(name string, state int32) []byte {
	e := xdr.NewEncoder(nil)
	h := oncrpc.CallHeader{XID: 7, Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcNotify}
	h.EncodeXDR(e)
	c := nsm.StatChange{Name: []byte(name), State: state}
	c.EncodeXDR(e)
	return e.Bytes()
}
