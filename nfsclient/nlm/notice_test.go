// SM_NOTIFY from servers whose connection is alive.

package nlm

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// tell simulates the arrival of a notice.
func (b *bench) tell() {
	select {
	case b.notices.arrived <- struct{}{}:
	default:
	}
}

// After a notice the mount reclaims the locks that the server has lost, at a bounded rate.
func TestNoticeReclaims(t *testing.T) {
	simulate(t, func(b *bench) {
		all := b.takeSome()
		b.m.set(func() {
			b.m.forget()
			b.m.graceEnd = time.Now().Add(time.Minute)
		})
		time.Sleep(2 * probeEvery)
		b.held("")
		b.tell()
		time.Sleep(2 * checkEvery)
		b.held(all)
		before := b.m.count()
		for range 100 {
			b.tell()
			time.Sleep(checkEvery)
		}
		// ten notices cause calls, each for three locks; the rest are probes of the connection
		if n := b.m.count() - before; n > 10*(3+3*3)+10 {
			b.Errorf("%d calls", n)
		}
		b.held(all)
	})
}

// A false notice changes nothing. If another client holds one of the locks now, that lock is lost,
// with one log line.
func TestNoticeThatIsNotTrue(t *testing.T) {
	simulate(t, func(b *bench) {
		all := b.takeSome()
		b.tell()
		time.Sleep(2 * noticeEvery)
		b.held(all)
		if lines := b.logged(); len(lines) != 0 {
			b.Errorf("logged %q", lines)
		}
		b.m.set(b.m.forget)
		other := b.another()
		b.want(other.Lock(context.Background(), nil, request(9, 0, 9, true)), 0)
		b.tell()
		time.Sleep(2 * noticeEvery)
		b.held("xxxxxxxxxx")
		if lines := b.logged(); len(lines) != 1 {
			b.Errorf("logged %q", lines)
		}
		other.Close(context.Background())
	})
}

// The mount listens from its first lock on, and retries after a failure, until it ends. Only
// notices from the server count.
func TestNoticesAreListenedForWithTheFirstLock(t *testing.T) {
	simulate(t, func(b *bench) {
		var mu sync.Mutex
		listens, ended, deny := 0, 0, errors.New("another status monitor")
		l := New(Options{Server: b.m, Name: "host", ListenNotify: func(context.Context, *transport.Program) (func(), error) {
			mu.Lock()
			defer mu.Unlock()
			listens++
			return func() { mu.Lock(); defer mu.Unlock(); ended++ }, deny
		}})
		lock := func(at uint64, want int) {
			b.Helper()
			b.want(l.Lock(context.Background(), nil, request(1, at, at, true)), 0)
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if listens != want {
				b.Errorf("%d attempts to listen, want %d", listens, want)
			}
		}
		time.Sleep(time.Hour)
		lock(0, 1)
		lock(2, 1)
		time.Sleep(listenRetry)
		mu.Lock()
		deny = nil
		mu.Unlock()
		lock(4, 2)
		time.Sleep(listenRetry)
		lock(6, 2)
		l.Close(context.Background())
		if ended != 1 {
			b.Errorf("ended %d times", ended)
		}
	})
}

// NOTIFY over TCP is accepted from the server, and ignored from another host.
func TestNotify(t *testing.T) {
	var mu sync.Mutex
	from := false
	l := New(Options{Server: &resultServer{}, Name: "host", From: func(net.Addr) bool { mu.Lock(); defer mu.Unlock(); return from }})
	defer l.Close(context.Background())
	c := caller(t, l.monitorProgram())
	notify := func(want int) {
		t.Helper()
		p := transport.Proc{Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcNotify, Name: "NOTIFY"}
		if err := c.Call(context.Background(), &p, &nsm.StatChange{Name: []byte("server"), State: 3}, nothing{}, nil, 0); err != nil {
			t.Errorf("call: %v", err)
		}
		if n := len(l.notices.arrived); n != want {
			t.Errorf("%d notices, want %d", n, want)
		}
	}
	notify(0)
	mu.Lock()
	from = true
	mu.Unlock()
	notify(1)
	notify(1)
	for _, proc := range []uint32{nsm.ProcNull, nsm.ProcSimu} {
		p := transport.Proc{Prog: nsm.Program, Vers: nsm.Version, Proc: proc, Name: "call"}
		if err := c.Call(context.Background(), &p, &nsm.StatChange{}, nothing{}, nil, 0); err != nil {
			t.Errorf("procedure %d: %v", proc, err)
		}
	}
	for _, proc := range []uint32{nsm.ProcStat, nsm.ProcMon} {
		var res nsm.StatRes
		p := transport.Proc{Prog: nsm.Program, Vers: nsm.Version, Proc: proc, Name: "call", MaxReply: 8}
		if err := c.Call(context.Background(), &p, &nsm.StatChange{}, &res, nil, 0); err != nil || res.Result != nsm.Fail {
			t.Errorf("procedure %d: %+v, %v", proc, res, err)
		}
	}
}
