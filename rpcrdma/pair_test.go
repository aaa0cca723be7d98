// Two connections joined over loopback, and their small RPC program.

package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// The procedures of the test program.
const (
	procNull  = 0
	procRead  = 1 // argument: count; result: count and an item of count bytes
	procWrite = 2 // argument: an item; result: its sum and length
	procLong  = 3 // argument: an opaque; result: the same opaque in the stream
	procPair  = 4 // argument: two items; result: both lengths and the sum of both
)

// An echoServer serves the test program. It serves each call on the calling goroutine, or on a
// separate one.
type echoServer struct {
	async  bool
	calls  atomic.Int64
	served tally
	hold   func(r *Request, xid uint32) bool // if set: reports whether it took over the request
}

// A tally is a WaitGroup that permits Add during Wait: the race detector sees no order in replies
// received through a socket.
type tally struct {
	mu sync.Mutex
	wg sync.WaitGroup
}

func (t *tally) Done() { t.wg.Done() }

func (t *tally) Add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wg.Add(n)
}

func (t *tally) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wg.Wait()
}

func (s *echoServer) ServeRPC(r *Request) (leads bool) {
	s.calls.Add(1)
	if s.hold != nil && s.hold(r, binary.BigEndian.Uint32(r.Msg.Stream)) {
		return true
	}
	if !s.async {
		s.serve(r)
		return true
	}
	s.served.Add(1)
	go func() {
		defer s.served.Done()
		s.serve(r)
	}()
	return true
}

func (s *echoServer) serve(r *Request) {
	var d xdr.Decoder
	d.Reset(r.Msg.Stream, r.Msg.Items)
	xid, _, proc := d.Uint32(), d.Uint32(), d.Uint32()
	var e xdr.Encoder
	e.Reset(r.Scratch())
	e.Uint32(xid)
	e.Uint32(1)
	e.Uint32(0)
	switch proc {
	case procRead:
		n := int(d.Uint32())
		b := r.Buffer(n)
		fill(b, xid)
		e.Uint32(uint32(n))
		e.Item(b)
	case procWrite:
		b := d.Item(1 << 24)
		e.Uint32(sum(b))
		e.Uint32(uint32(len(b)))
	case procLong:
		e.Opaque(d.Opaque(1 << 24))
	case procPair:
		a, b := d.Item(1<<24), d.Item(1<<24)
		e.Uint32(uint32(len(a)))
		e.Uint32(uint32(len(b)))
		e.Uint32(sum(a) ^ sum(b)<<1)
	}
	if d.Err() != nil || d.ItemsLeft() > 0 {
		e.Truncate(8)
		e.Uint32(4)
	}
	_ = r.Reply(chunks.Message{Stream: e.Bytes(), Items: e.Items()})
}

// pattern returns bytes with a period that is no power of two.
var pattern = func() (b [4093 + 256]byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + i>>3)
	}
	return b
}()

// fill and sum use library loops, which the race detector does not slow down.
func fill(b []byte, seed uint32) {
	for seed %= 256; len(b) > 0; {
		b = b[copy(b, pattern[seed:seed+4093]):]
	}
}

func sum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// pair connects a client to a server, and returns the Conns of both.
func pair(t testing.TB, client, server Config) (*Conn, *Conn) {
	t.Helper()
	dev, l := listen(t)
	defer l.Close()
	type result struct {
		c   *Conn
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		req, err := l.Accept(context.Background())
		if err != nil {
			accepted <- result{err: err}
			return
		}
		c, err := Accept(dev, req, server)
		accepted <- result{c, err}
	}()
	c, err := Dial(context.Background(), dev, l.Addr().String(), client)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	s := <-accepted
	if s.err != nil {
		t.Fatalf("Accept: %v", s.err)
	}
	t.Cleanup(func() { c.Close(); s.c.Close() })
	return c, s.c
}

var nextXID atomic.Uint32

// begin starts the stream of a call in k's scratch.
func begin(k *Call, proc uint32) *xdr.Encoder {
	e := xdr.NewEncoder(k.Scratch())
	e.Uint32(nextXID.Add(1))
	e.Uint32(0)
	e.Uint32(proc)
	return e
}

func setMsg(k *Call, e *xdr.Encoder) { k.Msg = chunks.Message{Stream: e.Bytes(), Items: e.Items()} }

// results returns a decoder positioned after the reply's status.
func results(k *Call) (*xdr.Decoder, error) {
	d := &xdr.Decoder{}
	d.Reset(k.Reply.Stream, k.Reply.Items)
	xid, dir, status := d.Uint32(), d.Uint32(), d.Uint32()
	if xid != binary.BigEndian.Uint32(k.Msg.Stream) || dir != 1 || status != 0 {
		return nil, fmt.Errorf("XID %x, direction %d, status %d in a reply to %x", xid, dir, status, k.Msg.Stream[:4])
	}
	return d, d.Err()
}

func doNull(c *Conn) error {
	k := c.NewCall()
	defer k.Release()
	setMsg(k, begin(k, procNull))
	k.MaxReply = 12
	if err := c.Do(context.Background(), k); err != nil {
		return err
	}
	_, err := results(k)
	return err
}

// doRead reads n bytes; to selects whether there is a sink for them.
func doRead(c *Conn, n int, to bool) error {
	k := c.NewCall()
	defer k.Release()
	e := begin(k, procRead)
	xid := binary.BigEndian.Uint32(e.Bytes())
	e.Uint32(uint32(n))
	setMsg(k, e)
	k.MaxReply = 20
	var sink []byte
	if to {
		sink = make([]byte, n)
		k.Sink = sink
	} else {
		k.MaxReply += xdr.RoundUp(n)
	}
	if err := c.Do(context.Background(), k); err != nil {
		return err
	}
	d, err := results(k)
	if err != nil {
		return err
	}
	if got := d.Uint32(); got != uint32(n) {
		return fmt.Errorf("count %d", got)
	}
	b := d.Item(1 << 24)
	want := make([]byte, n)
	fill(want, xid)
	if d.Err() != nil || d.ItemsLeft() != 0 || !bytes.Equal(b, want) {
		return fmt.Errorf("read of %d: %d bytes, %d items left, %v", n, len(b), d.ItemsLeft(), d.Err())
	}
	if k.SinkOffered() && n > 0 && &b[0] != &sink[0] {
		return errors.New("bytes did not land in the sink")
	}
	return nil
}

func doWrite(c *Conn, n int) error {
	b := make([]byte, n)
	fill(b, uint32(n))
	k := c.NewCall()
	defer k.Release()
	e := begin(k, procWrite)
	e.Item(b)
	setMsg(k, e)
	k.MaxReply = 20
	if err := c.Do(context.Background(), k); err != nil {
		return err
	}
	d, err := results(k)
	if err != nil {
		return err
	}
	if s, l := d.Uint32(), d.Uint32(); s != sum(b) || l != uint32(n) {
		return fmt.Errorf("write of %d: sum %x length %d", n, s, l)
	}
	return nil
}

func doPair(c *Conn, n, m int) error {
	a, b := make([]byte, n), make([]byte, m)
	fill(a, 1)
	fill(b, 2)
	k := c.NewCall()
	defer k.Release()
	e := begin(k, procPair)
	e.Item(a)
	e.Item(b)
	setMsg(k, e)
	k.MaxReply = 24
	if err := c.Do(context.Background(), k); err != nil {
		return err
	}
	d, err := results(k)
	if err != nil {
		return err
	}
	if x, y, s := d.Uint32(), d.Uint32(), d.Uint32(); x != uint32(n) || y != uint32(m) || s != sum(a)^sum(b)<<1 {
		return fmt.Errorf("pair of %d and %d: %d and %d, with the sum %x", n, m, x, y, s)
	}
	return nil
}

// doLong sends and receives n bytes in streams, without items.
func doLong(c *Conn, n int) error {
	b := make([]byte, n)
	fill(b, uint32(n))
	k := c.NewCall()
	defer k.Release()
	e := begin(k, procLong)
	e.Opaque(b)
	setMsg(k, e)
	k.MaxReply = 16 + xdr.RoundUp(n)
	if err := c.Do(context.Background(), k); err != nil {
		return err
	}
	d, err := results(k)
	if err != nil {
		return err
	}
	if got := d.Opaque(1 << 24); !bytes.Equal(got, b) {
		return fmt.Errorf("long of %d: %d bytes", n, len(got))
	}
	return nil
}

var sizes = []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20}

func TestEveryForm(t *testing.T) { overProviders(t, testEveryForm) }

func testEveryForm(t *bed) {
	conformance.Proves(t, "R8166-014", "R8166-071", "R8166-079", "R8166-085", "R8166-087", "R8166-095", "R8166-097", "R8166-214")
	for _, async := range []bool{false, true} {
		srv := &echoServer{async: async}
		c, _ := pair(t, Config{}, Config{Handler: srv})
		for _, n := range sizes {
			for name, err := range map[string]error{
				"null": doNull(c), "write": doWrite(c, n), "read to sink": doRead(c, n, true),
				"read by reply": doRead(c, n, false), "long": doLong(c, n), "pair": doPair(c, n, n/3),
			} {
				if err != nil {
					t.Fatalf("async %v: %s of %d: %v", async, name, n, err)
				}
			}
		}
	}
}

func TestManyAtOnce(t *testing.T) { overProviders(t, testManyAtOnce) }

func testManyAtOnce(t *bed) {
	conformance.Proves(t, "R8166-002", "R8166-018")
	srv := &echoServer{async: true}
	c, s := pair(t, Config{Credits: 16}, Config{Credits: 16, Handler: srv})
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range 30 {
				n := sizes[(g+i)%len(sizes)]
				var err error
				switch (g + i) % 5 {
				case 0:
					err = doNull(c)
				case 1:
					err = doRead(c, n, true)
				case 2:
					err = doWrite(c, n)
				case 3:
					err = doLong(c, n)
				case 4:
					err = doRead(c, n, false)
				}
				if err != nil {
					t.Errorf("%d bytes: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	srv.served.Wait()
	c.Close()
	s.Close()
	checkReleased(t, c, s)
}

// checkReleased checks that both ends have released everything.
func checkReleased(t testing.TB, conns ...*Conn) {
	t.Helper()
	for _, c := range conns {
		rq, rs := &c.requester, &c.responder
		rq.mu.Lock()
		if rq.pending.n != 0 || rq.credits.inflight != 0 || rq.abandoned != 0 {
			t.Errorf("%d pending, %d in flight, %d abandoned", rq.pending.n, rq.credits.inflight, rq.abandoned)
		}
		rq.mu.Unlock()
		rs.mu.Lock()
		if rs.account.Held() != 0 || rs.serving != 0 {
			t.Errorf("%d bytes held, %d calls served", rs.account.Held(), rs.serving)
		}
		rs.mu.Unlock()
	}
}
