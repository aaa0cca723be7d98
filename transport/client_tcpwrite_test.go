// Callers writing for each other over a simulated TCP connection: handing over the writer's role.

package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A pipedConn is a Client's connection to the test's end of an unbuffered pipe.
type pipedConn struct {
	*tcpClientConn
	c      *Client
	far    net.Conn
	server sync.WaitGroup // the goroutines that read and write far, until it is closed
}

// newPipedConn makes a pipedConn in the test's bubble.
func newPipedConn(t *testing.T, cfg ClientConfig) *pipedConn {
	near, far := net.Pipe()
	p := &pipedConn{c: newClient(cfg, "server:2049"), far: far}
	p.tcpClientConn = newTCPClientConn(near, &p.c.cfg)
	t.Cleanup(func() {
		p.c.end()
		p.close(ErrClosed)
		far.Close()
		p.server.Wait()
	})
	return p
}

// writeCall returns a WRITE of n bytes derived from its XID.
func (p *pipedConn) writeCall(xid uint32, n int) *outCall {
	k := p.c.outCallOf(xid)
	k.proc, k.args, k.res = testProc(tWrite), &writeArgs{bytes.Repeat([]byte{byte(xid)}, n)}, words{0, 0}
	return k
}

// begin starts the call; its error arrives on the channel.
func (p *pipedConn) begin(ctx context.Context, k *outCall, limit time.Duration) chan error {
	ended := make(chan error, 1)
	go func() { ended <- k.attempt(ctx, p.tcpClientConn, time.Now().Add(limit)) }()
	synctest.Wait()
	return ended
}

// writeReply returns a server's reply to a WRITE; nil: the record is damaged.
func writeReply(call []byte) []byte {
	d := xdr.NewDecoder(call)
	var h oncrpc.CallHeader
	h.DecodeXDR(d)
	n, data := d.Uint32(), d.Item(2<<20)
	if d.Err() != nil || int(n) != len(data) || bytes.Count(data, []byte{byte(h.XID)}) != len(data) {
		return nil
	}
	var e xdr.Encoder
	(&oncrpc.ReplyHeader{XID: h.XID}).EncodeXDR(&e)
	e.Uint32(n)
	e.Uint32(sum(data))
	return fragment(e.Bytes(), true)
}

// TestReplyFreesTheWriter: a caller with a reply returns, even if the server accepts no bytes of
// another call that it has begun to write. That call continues from there.
func TestReplyFreesTheWriter(t *testing.T) {
	for _, end := range []string{"reply", "context", "timer"} {
		synctest.Test(t, func(t *testing.T) {
			l := newPipedConn(t, ClientConfig{CallTimeout: Hard})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first := l.begin(ctx, l.writeCall(1, 100), 5*time.Second)
			second := l.begin(t.Context(), l.writeCall(2, 1<<20), time.Hour)
			third := l.begin(t.Context(), l.writeCall(3, 100), time.Hour)
			call := readCall(l.far)
			head := make([]byte, 300) // the second call, which the first caller writes
			if _, err := io.ReadFull(l.far, head); err != nil {
				t.Fatalf("ReadFull: %v", err)
			}
			want := error(nil)
			switch end {
			case "reply":
				l.far.Write(writeReply(call))
			case "context":
				cancel()
				want = context.Canceled
			case "timer":
				want = errNoAnswer
			}
			if err := <-first; err != want {
				t.Errorf("%s: the first call: %v", end, err)
			}
			rest := newRecordReader(io.MultiReader(bytes.NewReader(head), l.far), 4096, 2<<20)
			for _, ended := range []chan error{second, third} {
				rec, err := rest.next()
				if err != nil {
					t.Fatalf("%s: the server got no whole call: %v", end, err)
				}
				l.far.Write(writeReply(rec.B))
				if err := <-ended; err != nil {
					t.Errorf("%s: a call after it: %v", end, err)
				}
			}
		})
	}
}

// TestWriterIsHandedOver: on a slow connection kept full by many callers, no call takes
// longer than the bytes queued before it.
func TestWriterIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, each, size, step = 16, 8, 256 << 10, 16 << 10
		const pause = 5 * time.Millisecond // for each step: 3 MiB/s
		l := newPipedConn(t, ClientConfig{})
		l.server.Go(func() { serveSlowly(l.far, step, pause) })
		var mu sync.Mutex
		var longest time.Duration
		var wg sync.WaitGroup
		for g := range callers {
			wg.Go(func() {
				for i := range each {
					k, began := l.writeCall(uint32(g*each+i+1), size), time.Now()
					if err := k.attempt(t.Context(), l.tcpClientConn, began.Add(time.Minute)); err != nil {
						t.Errorf("attempt: %v", err)
					}
					mu.Lock()
					longest = max(longest, time.Since(began))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if fair := callers * (size / step) * pause; longest > 2*fair {
			t.Errorf("a call took %v; in turn it is %v", longest, fair)
		}
	})
}

// serveSlowly reads step bytes at a time with a pause after them, and replies to each WRITE.
func serveSlowly(nc net.Conn, step int, pause time.Duration) {
	r := newRecordReader(&slowReader{nc, step, pause}, 4096, 2<<20)
	for {
		rec, err := r.next()
		if err != nil {
			return
		}
		nc.Write(writeReply(rec.B))
		rec.Put()
	}
}

type slowReader struct {
	r     io.Reader
	step  int
	pause time.Duration
}

func (s *slowReader) Read(p []byte) (int, error) {
	<-time.After(s.pause)
	return io.ReadFull(s.r, p[:min(len(p), s.step)])
}

// TestReplyWinsOverTimerAndContext: a reply wins over timer and context in any order in which await
// may see them.
func TestReplyWinsOverTimerAndContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedConn(t, ClientConfig{})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 64 {
			k := l.c.outCallOf(1)
			k.expired.Reset(0)
			k.tcp.ready <- struct{}{}
			synctest.Wait()
			if err := l.await(ended, k); err != nil || len(k.tcp.ready) != 0 {
				t.Fatalf("a call with its reply: %v", err)
			}
			k.expired.Stop()
		}
	})
}

// TestSmallCallsAreWrittenTogether: calls queued during a write follow in one batch, up to
// batchMax.
func TestSmallCallsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedConn(t, ClientConfig{})
		const small, some = 100, 20
		var calls []chan error
		for i := range some + 1 {
			calls = append(calls, l.begin(t.Context(), l.writeCall(uint32(i+1), small), time.Hour))
		}
		calls = append(calls, l.begin(t.Context(), l.writeCall(some+2, batchMax), time.Hour))
		b := make([]byte, 1<<20)
		one, err := l.far.Read(b)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		if n, _ := l.far.Read(b[one:]); n != some*one {
			t.Errorf("%d bytes at once, want %d calls of %d", n, some, one)
		}
		l.mu.Lock()
		l.end(errors.New("enough"))
		l.mu.Unlock()
		for _, ended := range calls {
			if err := <-ended; !isLost(err) {
				t.Error(err)
			}
		}
	})
}

// TestWritersStorm: calls with all sizes, canceled at any moment, on a stalling connection. Each
// received record is complete and right, each call ends correctly, and nothing remains.
func TestWritersStorm(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { writersStorm(t, rand.New(rand.NewPCG(seed, 1))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func writersStorm(t *testing.T, r *rand.Rand) {
	l := newPipedConn(t, ClientConfig{CallTimeout: Hard})
	cutAfter := time.Duration(r.IntN(20)) * time.Second
	var mu sync.Mutex // guards r
	random := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	l.server.Go(func() {
		in := newRecordReader(&randomReader{l.far, random}, 4096, 2<<20)
		for {
			rec, err := in.next()
			if err != nil {
				return
			}
			reply := writeReply(rec.B)
			rec.Put()
			if reply == nil {
				t.Error("a damaged record")
			}
			if random(4) > 0 {
				l.far.Write(reply)
				continue
			}
			l.server.Go(func() { // later, among others
				<-time.After(time.Duration(random(3000)) * time.Millisecond)
				l.far.Write(reply)
			})
		}
	})
	if cutAfter > 10*time.Second {
		time.AfterFunc(cutAfter, func() { l.far.Close() })
	}
	var wg sync.WaitGroup
	var calls []*outCall
	for i := range 40 {
		size := random(3000)
		if random(4) == 0 {
			size = random(200 << 10)
		}
		k := l.writeCall(uint32(i+1), size)
		calls = append(calls, k)
		wg.Go(func() {
			<-time.After(time.Duration(random(4000)) * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random(8000))*time.Millisecond)
			defer cancel()
			err := k.attempt(ctx, l.tcpClientConn, time.Now().Add(time.Duration(random(20000))*time.Millisecond))
			out := k.res.(words)
			switch {
			case err == nil && (int(out[0]) != size || out[1] != sum(k.args.(*writeArgs).data)):
				t.Errorf("call %d: the reply of another", k.xid)
			case err != nil && err != errNoAnswer && !errors.Is(err, context.DeadlineExceeded) && !isLost(err):
				t.Errorf("call %d: %v", k.xid, err)
			}
			clear(k.args.(*writeArgs).data) // a record with these would be damaged
		})
	}
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writer != nil || len(l.out)+len(l.batch)+len(l.pending) != 0 {
		t.Errorf("left: writer %v, %d queued, %d in the batch, %d pending", l.writer, len(l.out), len(l.batch), len(l.pending))
	}
	for _, k := range calls {
		if k.tcp.state != callIdle || len(k.tcp.turn)+len(k.tcp.ready) != 0 {
			t.Errorf("call %d is left in state %d, or with a signal", k.xid, k.tcp.state)
		}
	}
}

// A randomReader reads some bytes at a time, and sometimes pauses.
type randomReader struct {
	r      io.Reader
	random func(int) int
}

func (r *randomReader) Read(p []byte) (int, error) {
	if r.random(8) == 0 {
		<-time.After(time.Duration(r.random(2500)) * time.Millisecond)
	}
	return r.r.Read(p[:min(len(p), 1+r.random(64<<10))])
}

// TestRecordSize: the mark has the record's size.
func TestRecordSize(t *testing.T) {
	for n := range 9 {
		k := new(Client).newOutCall()
		k.proc, k.args = testProc(tWrite), &writeArgs{make([]byte, n)}
		k.encode(nil)
		var g gatherList
		var b bytes.Buffer
		g.message(&k.tcp.mark, &k.enc)
		if err := g.writeTo(&b, nil); err != nil {
			t.Fatalf("writeTo: %v", err)
		}
		if m := binary.BigEndian.Uint32(b.Bytes()) &^ lastFragment; int(m) != b.Len()-markLen || int(m) != recordSize(&k.enc) {
			t.Errorf("%d bytes of data: mark %d, size %d, record %d", n, m, recordSize(&k.enc), b.Len()-markLen)
		}
		k.recycle()
	}
}

// TestHandedOverBatchOfADeadConnection: if the connection ends before a half-written batch's new
// writer runs, the batch's calls are still released.
func TestHandedOverBatchOfADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedConn(t, ClientConfig{})
		next, other := l.writeCall(1, 10), l.writeCall(2, 10)
		l.mu.Lock()
		for _, k := range []*outCall{next, other} {
			k.tcp.ctx, k.tcp.state = t.Context(), callWriting
			l.batch = append(l.batch, k)
		}
		l.handOver(next)
		l.end(errors.New("cut"))
		l.mu.Unlock()
		var wg sync.WaitGroup
		for _, k := range []*outCall{other, next} {
			wg.Go(func() { l.leave(k) })
		}
		wg.Wait()
		if l.writer != nil {
			t.Fatalf("l.writer: %v, want nil", l.writer)
		}
		must.Equal(t, "len(l.batch)", len(l.batch), 0)
		must.Equal(t, "len(next.tcp.turn)", len(next.tcp.turn), 0)
	})
}
