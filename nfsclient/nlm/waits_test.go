// Waiting in the server's queue: callbacks that arrive, get lost, or cross other calls.

package nlm

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A queue has a mount that the server can call back, and another mount with the lock that the first
// waits for.
type queue struct {
	*bench
	l     *Locks
	other *Locks
}

func simulateQueue(t *testing.T, test func(b queue)) {
	simulate(t, func(b *bench) {
		q := queue{b, b.called(Options{}), b.another()}
		q.take()
		test(q)
		q.l.Close(context.Background())
		q.other.Close(context.Background())
		if n := len(b.m.granters); n != 0 {
			b.Errorf("%d mounts still listen", n)
		}
	})
}

// take locks and give unlocks, both for the other mount.
func (b queue) take() {
	b.Helper()
	b.want(b.other.Lock(context.Background(), nil, request(9, 0, 9, true)), 0)
}

func (b queue) give() {
	b.Helper()
	b.want(b.other.Unlock(context.Background(), testFH, Key{ID: 9}, 0, lastByte), 0)
}

// wait makes owner 1 wait for bytes 2 to 5, in the server's queue.
func (b queue) wait(ctx context.Context, stop <-chan struct{}) <-chan error {
	b.Helper()
	ended := waitFor(ctx, b.l, stop, request(1, 2, 5, true))
	time.Sleep(time.Second)
	if n := b.m.waits(); n != 1 {
		b.Fatalf("%d in the queue", n)
	}
	return ended
}

// round makes owner 1 wait, get the lock and release it. It returns the time between the other
// mount's release and the grant.
func (b queue) round() time.Duration {
	b.Helper()
	ended := b.wait(context.Background(), nil)
	b.give()
	freed := time.Now()
	b.want(<-ended, 0)
	d := time.Since(freed)
	b.held("--xxxx")
	b.want(b.l.Release(context.Background(), testFH, Key{ID: 1}), 0)
	b.take()
	return d
}

// hear receives the server's first callback.
func (b queue) hear() {
	b.Helper()
	if d := b.round(); d != 0 || !b.l.heard() {
		b.Fatalf("the lock came after %v, heard: %v", d, b.l.heard())
	}
}

// A callback ends the wait at once. After a first callback, few calls are made until the next.
func TestCallbackEndsTheWait(t *testing.T) {
	simulateQueue(t, func(b queue) {
		b.hear()
		ended := b.wait(context.Background(), nil)
		before := b.m.count()
		time.Sleep(time.Hour)
		// each of the two mounts also probes the connection every ten seconds while a restart could
		// take its locks
		if n := b.m.count() - before; n > 3600/30+2*3600/10+2 {
			b.Errorf("%d calls in an hour", n)
		}
		b.give()
		freed := time.Now()
		b.want(<-ended, 0)
		if d := time.Since(freed); d != 0 {
			b.Errorf("the lock came after %v", d)
		}
		synctest.Wait()
		b.m.set(func() {
			if b.m.last != nlm4.Granted {
				b.Errorf("GRANTED was answered %v", b.m.last)
			}
		})
	})
}

// A lost callback costs one long pause. After it, the mount polls again until the next callback.
func TestLostCallback(t *testing.T) {
	simulateQueue(t, func(b queue) {
		b.hear()
		b.m.set(func() { b.m.deaf = true })
		if d := b.round(); d <= pollMost || d > callbackPoll {
			b.Errorf("with the first callback lost the lock came after %v", d)
		}
		if d := b.round(); d > pollMost {
			b.Errorf("with the second callback lost the lock came after %v", d)
		}
		b.m.set(func() { b.m.deaf = false })
		b.hear()
	})
}

// makeRoom releases the other mount's lock just before a CANCEL.
func (b queue) makeRoom(proc uint32) error {
	if proc == nlm4.ProcCancel {
		b.m.each(&nlm4.Lock{}, func(held map[modelOwner]bool, _ modelOwner) {
			delete(held, modelOwner{string(b.other.object), b.other.svid})
		})
		b.m.grant()
	}
	return nil
}

// A wait that is interrupted or killed leaves the queue. No owner has the lock afterwards, and
// earlier locks stay.
func TestGivenUpWaitLeavesTheQueue(t *testing.T) {
	for name, crosses := range map[string]bool{"in the queue": false, "granted meanwhile": true} {
		for _, killed := range []bool{false, true} {
			simulateQueue(t, func(b queue) {
				b.hear()
				b.give()
				b.want(b.l.Lock(context.Background(), nil, request(1, 4, 7, false)), 0)
				b.want(b.other.Lock(context.Background(), nil, request(9, 0, 5, false)), 0)
				ctx, kill := context.WithCancel(context.Background())
				stop := make(chan struct{})
				ended := b.wait(ctx, stop)
				if crosses {
					b.m.set(func() { b.m.before = b.makeRoom })
				}
				if killed {
					kill()
					if err := <-ended; !errors.Is(err, context.Canceled) {
						b.Errorf("%s: a killed program: %v", name, err)
					}
				} else {
					close(stop)
					b.want(<-ended, syscall.EINTR)
				}
				time.Sleep(time.Minute)
				if n := b.m.waits(); n != 0 {
					b.Errorf("%s: %d in the queue", name, n)
				}
				b.give()
				time.Sleep(time.Minute)
				b.held("----1111")
				kill()
			})
		}
	}
}

// A request whose reply is lost leaves the queue.
func TestReplyLostInTheQueue(t *testing.T) {
	simulateQueue(t, func(b queue) {
		b.hear()
		lost := false
		b.m.set(func() {
			b.m.after = func(proc uint32) error {
				if proc == nlm4.ProcLock && len(b.m.queue) > 0 && !lost {
					lost = true
					return errLost
				}
				return nil
			}
		})
		q := request(1, 2, 5, true)
		q.Wait = true
		if err := b.l.Lock(context.Background(), nil, q); !errors.Is(err, errLost) {
			b.Errorf("a lost reply: %v", err)
		}
		time.Sleep(time.Minute)
		b.give()
		time.Sleep(time.Minute)
		b.held("")
	})
}

// At unmount a waiting request leaves the queue, and gets no lock afterwards.
func TestUnmountLeavesTheQueue(t *testing.T) {
	simulateQueue(t, func(b queue) {
		l := b.called(Options{})
		ended := waitFor(context.Background(), l, nil, request(5, 2, 5, true))
		time.Sleep(time.Minute)
		if n := b.m.waits(); n != 1 {
			b.Fatalf("%d in the queue", n)
		}
		l.Close(context.Background())
		b.want(<-ended, syscall.ENOLCK)
		if n := b.m.waits(); n != 0 {
			b.Errorf("%d in the queue", n)
		}
	})
}

// A server restart empties the queue, and its waiters request their locks again.
func TestServerRestartsWhileOneWaits(t *testing.T) {
	simulateQueue(t, func(b queue) {
		b.hear()
		ended := b.wait(context.Background(), nil)
		b.m.restart(5 * time.Second)
		begun := time.Now()
		time.Sleep(20 * time.Second)
		if n := b.m.waits(); n != 1 {
			b.Errorf("%d in the queue", n)
		}
		b.held("xxxxxxxxxx")
		b.give()
		b.want(<-ended, 0)
		if d := time.Since(begun); d != 20*time.Second {
			b.Errorf("the lock came after %v", d)
		}
	})
}

// If another program listens on the port, requests stay out of the queue, because the mount would
// not notice a granted lock. Listening is retried after a time.
func TestNoQueueWithoutListener(t *testing.T) {
	simulateQueue(t, func(b queue) {
		b.m.set(func() { b.m.deny = errors.New("the kernel's") })
		ended := waitFor(context.Background(), b.l, nil, request(1, 2, 5, true))
		time.Sleep(10*listenRetry - time.Second)
		if n := b.m.waits(); n != 0 {
			b.Errorf("%d in the queue", n)
		}
		b.m.mu.Lock()
		if b.m.listens < 9 || b.m.listens > 10 {
			b.Errorf("asked %d times to listen", b.m.listens)
		}
		b.m.mu.Unlock()
		b.give()
		freed := time.Now()
		b.want(<-ended, 0)
		if d := time.Since(freed); d > pollMost {
			b.Errorf("the lock came after %v", d)
		}
	})
}

// After a process is killed, the next mount removes the killed mount's request from the queue.
func TestKilledInTheQueue(t *testing.T) {
	dir := t.TempDir()
	simulateQueue(t, func(b queue) {
		killed := b.called(Options{Dir: dir, Source: "a:/x"})
		ended := waitFor(context.Background(), killed, nil, request(5, 2, 5, true))
		time.Sleep(time.Minute)
		b.m.hangUp() // calls hang, so waiters cannot leave the queue
		killed.kill()
		killed.closing.Do(func() { close(killed.leaving) })
		<-ended
		killed.work.Wait()
		b.m.set(func() { b.m.hang, b.m.granters = nil, nil })
		if n := b.m.waits(); n != 1 {
			b.Fatalf("%d in the queue after the kill", n)
		}
		next := b.called(Options{Dir: dir, Source: "a:/x"})
		synctest.Wait()
		if n := b.m.waits(); n != 0 {
			b.Errorf("%d in the queue", n)
		}
		next.Close(context.Background())
	})
}

// Callbacks for other owners get DENIED, so the server grants the lock elsewhere. Callbacks for
// locks that are held do not get DENIED.
func TestCallbacksThatAreNotOurs(t *testing.T) {
	simulate(t, func(b *bench) {
		b.want(b.lock(1, 2, 5, true), 0)
		b.want(b.lock(1, 6, 9, false), 0)
		call := func(what string, want nlm4.Status, change func(*nlm4.TestArgs)) {
			b.Helper()
			a := nlm4.TestArgs{Exclusive: true, Lock: b.wire(testFH, b.svid, span{2, 5, true})}
			change(&a)
			if got := b.granting(&a); got != want {
				b.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		call("what is held", nlm4.Granted, func(*nlm4.TestArgs) {})
		call("a part", nlm4.Granted, func(a *nlm4.TestArgs) { a.Lock.Length = 1 })
		call("shared, of both", nlm4.Granted, func(a *nlm4.TestArgs) { a.Exclusive, a.Lock.Length = false, 8 })
		call("exclusive, of both", nlm4.Granted, func(a *nlm4.TestArgs) { a.Lock.Length = 8 })
		call("to the end", nlm4.Granted, func(a *nlm4.TestArgs) { a.Lock.Length = 0 })
		call("another owner", nlm4.Denied, func(a *nlm4.TestArgs) { a.Lock.Svid++ })
		call("another mount", nlm4.Denied, func(a *nlm4.TestArgs) { a.Lock.Owner = []byte("other") })
		call("no mount", nlm4.Denied, func(a *nlm4.TestArgs) { a.Lock.Owner = nil })
		call("another file", nlm4.Denied, func(a *nlm4.TestArgs) { a.Lock.FH = []byte("other") })
		call("no file", nlm4.Denied, func(a *nlm4.TestArgs) { a.Lock.FH = make([]byte, 65) })
		synctest.Wait()
		b.held("--xxxx1111")
		if b.heard() {
			b.Error("a server is relied on that called nobody who waits")
		}
	})
}

// A resultServer receives GRANTED_RES.
type resultServer struct {
	Server
	results chan nlm4.Res
}

func (s *resultServer) NLM(_ context.Context, _ any, proc uint32, args xdr.Marshaler, _ xdr.Unmarshaler) error {
	if proc == nlm4.ProcGrantedRes {
		s.results <- *args.(*nlm4.Res)
	}
	return nil
}

// caller returns a client over TCP for a program.
func caller(t *testing.T, p *transport.Program) *transport.Client {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	srv := transport.NewServer(transport.ServerConfig{}, p)
	go srv.ServeTCP(tcp)
	t.Cleanup(func() { srv.Shutdown(context.Background()) })
	c, err := transport.DialTCP(context.Background(), tcp.Addr().String(), transport.ClientConfig{})
	if err != nil {
		t.Fatalf("dial TCP: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// GRANTED gets a reply; GRANTED_MSG is answered by a call to the server.
func TestBothFormsOfGranted(t *testing.T) {
	s := &resultServer{results: make(chan nlm4.Res, 1)}
	l := New(Options{Server: s, Name: "host"})
	defer l.Close(context.Background())
	c := caller(t, l.program())
	a := nlm4.TestArgs{Cookie: []byte("cookie"), Lock: l.wire(testFH, 7, span{0, 1, true})}
	for proc, res := range map[uint32]xdr.Unmarshaler{nlm4.ProcNull: nil, nlm4.ProcGranted: new(result), nlm4.ProcGrantedMsg: nil} {
		p := transport.Proc{Prog: nlm4.Program, Vers: nlm4.Version, Proc: proc, Name: "call", MaxReply: 1 << 10}
		if res == nil {
			res = nothing{}
		}
		if err := c.Call(context.Background(), &p, &a, res, nil, 0); err != nil {
			t.Errorf("procedure %d: %v", proc, err)
		}
		if r, ok := res.(*result); ok && r.Status != nlm4.Denied {
			t.Errorf("GRANTED of what nobody waits for: %v", r.Status)
		}
	}
	if r := <-s.results; string(r.Cookie) != "cookie" || r.Status != nlm4.Denied {
		t.Errorf("GRANTED_RES %+v", r)
	}
}

type nothing struct{}

func (nothing) DecodeXDR(*xdr.Decoder) {}

// When a mount or its program has ended, its request enters no queue, because no callback would
// remove it.
func TestNoLockCallAfterTheEnd(t *testing.T) {
	simulateQueue(t, func(b queue) {
		q := request(5, 2, 5, true)
		asks := func(ctx context.Context) error {
			o := b.l.enter(q)
			defer b.l.unref(o)
			w, err := b.l.beginWait(o, q.span())
			b.want(err, 0)
			w.wantsQueue = true
			defer b.l.endWait(context.Background(), w)
			_, err = b.l.attempt(ctx, o, q, w)
			return err
		}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		before := b.m.count()
		for range 100 { // often, because select takes one of two ready channels at random
			if err := asks(gone); !errors.Is(err, context.Canceled) {
				b.Errorf("a program that has gone: %v", err)
			}
		}
		synctest.Wait()
		if n := b.m.count() - before; n != 0 {
			b.Errorf("%d calls for a program that has gone", n)
		}
		b.l.closing.Do(func() { close(b.l.leaving) })
		b.want(asks(context.Background()), syscall.ENOLCK)
		if n := b.m.count() - before; n != 0 || b.m.waits() != 0 {
			b.Errorf("%d calls at the end of the mount", n)
		}
	})
}

// A late callback names a lock that LOCK has already taken. Since then one part was released, and
// another became shared. The mount must not answer DENIED, because the server releases denied
// locks.
func TestLateCallback(t *testing.T) {
	simulate(t, func(b *bench) {
		b.want(b.lock(1, 2, 9, true), 0)
		b.want(b.lock(1, 6, 7, false), 0)
		b.unlock(1, 8, 9)
		// in the second round, the server does not have the lock, and takes it before it calls
		for _, taken := range []bool{false, true} {
			a := nlm4.TestArgs{Exclusive: true, Lock: b.wire(testFH, b.svid, span{2, 9, true})}
			b.m.set(func() {
				if taken {
					b.m.each(&a.Lock, func(held map[modelOwner]bool, o modelOwner) { held[o] = true })
				}
			})
			if b.granting(&a) == nlm4.Denied {
				b.m.set(func() { b.m.each(&a.Lock, func(held map[modelOwner]bool, o modelOwner) { delete(held, o) }) })
			}
			synctest.Wait()
			b.held("--xxxx11")
			b.compare()
		}
		for range 2 { // a second time, because calls must not pile up
			hang := b.m.hangUp()
			a := nlm4.TestArgs{Exclusive: true, Lock: b.wire(testFH, b.svid, span{2, 9, true})}
			for b.granting(&a) != nlm4.DeniedGracePeriod {
			}
			if n := b.callbacks.corrects; n != maxCorrects {
				b.Fatalf("%d at once", n)
			}
			b.m.set(func() { b.m.hang = nil })
			close(hang)
			synctest.Wait()
		}
		b.held("--xxxx11")
	})
}
