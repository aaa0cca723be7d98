// Clients whose machines no longer answer.

package nlm

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A machines simulates which machines of clients answer.
type machines struct {
	mu sync.Mutex
	up bool // whether machines answer; guarded by mu
	n  int  // number of probes; guarded by mu
}

func (m *machines) reach(netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	return m.up
}

func (m *machines) set(up bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.up = up
}

func (m *machines) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

// goneRig returns a rig with a client that has a lock, and another client. The loops of the service
// do not run.
func goneRig(t *testing.T, up bool) (r *rig, m *machines, a, b *peer, fh []byte) {
	m = &machines{up: up}
	r = newRig(t, Options{Gone: -1}, believeAll, false, func(s *Service) { s.reach = m.reach })
	r.locks.opts.Gone = time.Nanosecond // shorter than the time between two rounds
	r.newFile("f", 0o666)
	a, b = r.tcp("a", rootCred), r.rdma("b", rootCred)
	fh = a.file("/disk", "f")
	a.want("LOCK", a.lock(fh, 1, 0, 10, true), nlm4.Granted)
	must.Become(t, "its machine has been asked", func() bool { return m.asked() == 1 && len(r.locks.probes) == 0 })
	return r, m, a, b, fh
}

// TestClientThatIsGone: a client's locks are freed once others have requested them. When the client
// is back it is notified, with a new number. It keeps locks that it got since.
func TestClientThatIsGone(t *testing.T) {
	r, m, a, b, fh := goneRig(t, true)
	before := r.locks.monitor.number()
	m.set(false)
	look := func() {
		r.locks.probeGone()
		r.locks.notifyAbsent()
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		look()
	}
	if m.asked() != 1 {
		t.Error("a machine is asked although no other client wants its locks")
	}
	b.want("what it has", b.block(fh, 2, 0, 1, true), nlm4.Blocked)
	look()
	b.want("after it has not answered once", b.block(fh, 2, 0, 1, true), nlm4.Blocked)
	look()
	if g := await(t, "GRANTED", r.daemon.granted); g.Lock.Svid != 2 {
		t.Errorf("GRANTED %+v", g)
	}
	look()
	if n := len(r.daemon.notified); n != 0 {
		t.Errorf("a machine that does not answer is notified %d times", n)
	}
	m.set(true)
	a.want("it is there again", a.lock(fh, 1, 5, 1, true), nlm4.Granted)
	r.locks.Connected(func(netip.Addr) bool { return true })
	look()
	if n := await(t, "SM_NOTIFY", r.daemon.notified); n.State <= before || n.State&1 != 1 {
		t.Errorf("notified of state %d after %d", n.State, before)
	}
	reclaim := nlm4.LockArgs{Exclusive: true, Reclaim: true, Lock: a.about(fh, 1, 5, 1)}
	a.want("reclaim of what it was given since", a.lockArgs(&reclaim), nlm4.Granted)
	reclaim.Lock = a.about(fh, 1, 0, 10)
	a.want("reclaim of what another has", a.lockArgs(&reclaim), nlm4.DeniedGracePeriod)
	told := len(r.daemon.notified) // one notice for each of our names
	look()
	if n := len(r.daemon.notified); n != told {
		t.Error("it is notified again")
	}
}

// TestClientsThatAreThere: a client keeps its locks if it calls or has a connection. It also keeps
// them if its machine answers again, or has never answered.
func TestClientsThatAreThere(t *testing.T) {
	for name, c := range map[string]struct {
		up   bool
		wait func(r *rig, m *machines, a *peer, fh []byte)
	}{
		"calls":        {true, func(_ *rig, _ *machines, a *peer, fh []byte) { a.lock(fh, 1, 20, 1, true) }},
		"connected":    {true, func(r *rig, _ *machines, _ *peer, _ []byte) { r.locks.Connected(func(netip.Addr) bool { return true }) }},
		"answers":      {true, func(r *rig, m *machines, _ *peer, _ []byte) { m.set(true); r.locks.probeGone(); m.set(false) }},
		"never-has":    {false, func(*rig, *machines, *peer, []byte) {}},
		"its-own-wait": {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, m, a, b, fh := goneRig(t, c.up)
			m.set(false)
			for range 3 {
				if c.wait == nil {
					a.want("another process of the client", a.lock(fh, 2, 0, 1, true), nlm4.Denied)
				} else {
					b.want("another client", b.lock(fh, 2, 0, 1, true), nlm4.Denied)
					c.wait(r, m, a, fh)
				}
				r.locks.probeGone()
				time.Sleep(time.Millisecond)
			}
			st, _ := b.test(fh, 9, 0, 1, true)
			b.want("TEST", st, nlm4.Denied)
		})
	}
}

// TestSilenceIsOneStretch: between two rounds that are far apart, a machine may have been up. So if
// two probes that far apart fail, the second begins a new silence.
func TestSilenceIsOneStretch(t *testing.T) {
	const gone = 10 * time.Minute
	for name, c := range map[string]struct {
		every time.Duration // the time between two rounds
		want  time.Duration // the time after which the client counts as gone; 0: not within an hour
	}{
		"looked at all the time":        {goneEvery, gone},
		"looked at now and then":        {gone / 2, 0},
		"looked at once and much later": {gone + time.Minute, 0},
	} {
		var g ledger
		g.init(defaultBounds(64))
		h := &host{}
		now := time.Now()
		g.probed(h, true, now, now, gone)
		begin := now.Add(c.every)
		var after time.Duration
		for now = begin; now.Sub(begin) < time.Hour && after == 0; now = now.Add(c.every) {
			g.wants(h, now)
			if g.probed(h, false, now, now.Add(-goneEvery-wantedFor), gone) {
				after = now.Sub(begin)
			}
		}
		if after != c.want {
			t.Errorf("%s: gone after %v, want %v", name, after, c.want)
		}
	}
}

// TestLooksForGone: a shorter Options.Gone means shorter intervals.
func TestLooksForGone(t *testing.T) {
	for gone, want := range map[time.Duration]time.Duration{
		defaultGone: goneEvery, 2 * time.Minute: goneEvery, 20 * time.Second: 5 * time.Second, time.Second: time.Second, 1: time.Second,
	} {
		if got := lookEvery(gone); got != want {
			t.Errorf("gone after %v: %v, want %v", gone, got, want)
		}
	}
}

// TestServerThatIsCutOff: a server that is cut off itself does not take all its clients for gone.
// The requester of a lock must be heard after the client's silence began. It is heard if it calls,
// or if its machine answers a probe after a time without calls.
func TestServerThatIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		calls, quiet, answers bool // activity of the requester; quiet: it last called long ago
		gone                  bool
	}{
		"nobody is heard":      {},
		"not for a time":       {quiet: true},
		"who waits calls":      {calls: true, gone: true},
		"who is quiet answers": {quiet: true, answers: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, m, _, b, fh := goneRig(t, true)
			r.locks.Connected(func(netip.Addr) bool { return false })
			b.want("what another has", b.block(fh, 2, 0, 1, true), nlm4.Blocked)
			must.Become(t, "its machine has been asked", func() bool { return m.asked() == 2 && len(r.locks.probes) == 0 })
			witness := false // the first probe is of the requester, and succeeds if it is up
			r.locks.reach = func(netip.Addr) bool {
				witness = !witness
				return c.answers && witness
			}
			g := &r.locks.ledger
			g.mu.Lock()
			for _, h := range g.hosts {
				h.presence.wanted = time.Time{} // requested long ago
				if c.quiet {
					h.presence.called = time.Now().Add(-2 * wantedFor)
				}
			}
			g.mu.Unlock()
			for range 4 {
				if c.calls {
					b.test(fh, 9, 0, 1, true)
				}
				r.locks.probeGone()
				time.Sleep(time.Millisecond)
			}
			if c.gone {
				await(t, "GRANTED", r.daemon.granted)
			}
			if st, h := b.test(fh, 9, 0, 1, true); st != nlm4.Denied || c.gone != (h.Svid == 2) {
				t.Errorf("TEST: %v, held by %+v", st, h)
			}
		})
	}
}

// TestReturnedClientsAreNotifiedConcurrently: a status monitor that does not respond delays no
// other notice.
func TestReturnedClientsAreNotifiedConcurrently(t *testing.T) {
	r, m, _, _, _ := goneRig(t, true)
	m.set(true)
	const clients = 8
	var mu sync.Mutex
	here, all := 0, make(chan struct{})
	port := r.locks.portOf
	r.locks.portOf = func(ctx context.Context, addr netip.Addr, prog, vers uint32) (uint16, error) {
		mu.Lock()
		if here++; here == clients {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return port(ctx, addr, prog, vers)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	before := r.locks.monitor.number()
	r.locks.absent.mu.Lock()
	for i := range clients {
		r.locks.absent.add(netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i)}), time.Now())
	}
	r.locks.absent.mu.Unlock()
	r.locks.notifyAbsent()
	select {
	case <-all:
	default:
		t.Error("they are notified one after the other")
	}
	r.locks.absent.mu.Lock()
	defer r.locks.absent.mu.Unlock()
	if r.locks.absent.left[netip.AddrFrom4([4]byte{127, 0, 0, 1})] != nil { // has a status monitor
		t.Error("one that answers is notified again")
	}
	if now := r.locks.monitor.number(); now != before+2 {
		t.Errorf("notified of state %d after %d", now, before)
	}
}

// TestClientWithoutStatusMonitor: a client without a status monitor is notified in vain. The number
// in the notice stays the same until another client loses locks.
func TestClientWithoutStatusMonitor(t *testing.T) {
	r, _, _, _, _ := goneRig(t, true)
	var asked atomic.Int32 // notices of one round are concurrent
	r.locks.portOf = func(context.Context, netip.Addr, uint32, uint32) (uint16, error) {
		asked.Add(1)
		return 0, errors.New("none")
	}
	add := func(last byte) {
		r.locks.absent.mu.Lock()
		defer r.locks.absent.mu.Unlock()
		r.locks.absent.add(netip.AddrFrom4([4]byte{127, 0, 0, last}), time.Now())
	}
	before := r.locks.monitor.number()
	for i, want := range []int32{2, 2, 4, 4} {
		if i%2 == 0 {
			add(byte(1 + i))
		}
		r.locks.notifyAbsent()
		if got := r.locks.monitor.number() - before; got != want {
			t.Errorf("notified %d times: number %d, want %d", i+1, got, want)
		}
	}
	const day = int(24 * time.Hour / goneEvery)
	for range day {
		r.locks.notifyAbsent()
	}
	if n, most := int(asked.Load()), 2*(day/mostRounds+8); n < 2*day/(mostRounds+1) || n > most {
		t.Errorf("two clients are asked %d times in a day, want %d at most", n, most)
	}
}

// TestLongAbsentClientIsProbedRarely: a client that stays away is probed ever more rarely, and is
// notified at once when it has a connection.
func TestLongAbsentClientIsProbedRarely(t *testing.T) {
	r, m, _, _, _ := goneRig(t, true)
	m.set(false)
	addr := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	var connected, told atomic.Bool
	r.locks.Connected(func(netip.Addr) bool { return connected.Load() })
	r.locks.portOf = func(context.Context, netip.Addr, uint32, uint32) (uint16, error) {
		told.Store(true)
		return 0, errors.New("none")
	}
	r.locks.absent.mu.Lock()
	r.locks.absent.add(addr, time.Now())
	r.locks.absent.mu.Unlock()
	before := m.asked()
	const rounds = 4 * mostRounds
	for range rounds {
		r.locks.notifyAbsent()
	}
	if n := m.asked() - before; n < 4 || n > 10 {
		t.Errorf("asked %d times in %d rounds", n, rounds)
	}
	// waits for the middle of the longest pause
	for n := m.asked(); m.asked() == n; {
		r.locks.notifyAbsent()
	}
	m.set(true)
	r.locks.notifyAbsent()
	if told.Load() {
		t.Error("an absent client is probed in each round")
	}
	connected.Store(true)
	r.locks.notifyAbsent()
	if !told.Load() {
		t.Error("a client with a connection again is not notified")
	}
}

// TestTooManyAway: if too many clients are absent, the most recent are remembered.
func TestTooManyAway(t *testing.T) {
	a := absence{left: map[netip.Addr]*absent{}}
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	now := time.Now()
	for i := range mostAbsent + 1 {
		a.add(at(i), now.Add(time.Duration(i)))
	}
	must.Equal(t, "number of those that are remembered", len(a.left), mostAbsent)
	must.Equal(t, "the first is remembered", a.left[at(0)] != nil, false)
	must.Equal(t, "the last is remembered", a.left[at(mostAbsent)] != nil, true)
}
