// The verbs over an inactive provider: their own checks and state.

package rnic

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// An inertProvider is a provider with endpoints that accept work and never do it.
type inertProvider struct{}

func (inertProvider) Caps() Caps {
	return Caps{Provider: "still", Services: 1<<RC | 1<<UD, RDMARead: true, MaxMessage: 1<<32 - 1}
}

func (inertProvider) NewEndpoint(q *ProviderQP, cfg QPConfig) (Endpoint, error) {
	if cfg.Service == UD {
		return nil, errors.ErrUnsupported
	}
	return &inertEndpoint{q: q}, nil
}

func (inertProvider) Connect(_ context.Context, ep Endpoint, _ string, p ConnParams) error {
	if !ep.(*inertEndpoint).q.Established(Connected{IRD: p.IRD, ORD: p.ORD, PrivateData: p.PrivateData}) {
		return ErrState
	}
	return nil
}

func (inertProvider) Listen(Service, string, string) (Listener, error) {
	return nil, errors.ErrUnsupported
}

// An inertEndpoint moves no data. It records posts, released regions, and the error of Abort.
type inertEndpoint struct {
	q        *ProviderQP
	posted   []Posted
	released []*MR
	aborted  error
}

func (e *inertEndpoint) PostSend(wrs []Posted) error {
	e.posted = append(e.posted, wrs...)
	return nil
}
func (e *inertEndpoint) Release(mr *MR) {
	for mr.pins.Load() > 0 {
		e.q.Unpin(mr)
	}
	e.released = append(e.released, mr)
}
func (e *inertEndpoint) Disconnect(context.Context) error { return nil }
func (e *inertEndpoint) Abort(err error) {
	if e.q.Fail(err, false) {
		e.aborted = err
		e.q.Flushed()
		e.q.Ended()
	}
}
func (e *inertEndpoint) ReceivesPosted()  {}
func (e *inertEndpoint) Leave(netip.Addr) {}
func (e *inertEndpoint) Join(netip.Addr) (AddressHandle, error) {
	return AddressHandle{}, errors.ErrUnsupported
}
func (e *inertEndpoint) Wait()                {}
func (e *inertEndpoint) Moved() uint64        { return 42 }
func (e *inertEndpoint) LocalAddr() net.Addr  { return nil }
func (e *inertEndpoint) RemoteAddr() net.Addr { return &net.UDPAddr{Port: 4791} }

func stillQP(t *testing.T) (*PD, *CQ, *QP, *inertEndpoint) {
	t.Helper()
	dev := NewDevice(inertProvider{})
	pd, cq := dev.AllocPD(), dev.NewCQ(8)
	qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 4, RQDepth: 4})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	return pd, cq, qp, EndpointOf(qp).(*inertEndpoint)
}

var registerStill = sync.OnceFunc(func() {
	Register("still", func(DeviceConfig) *Device { return NewDevice(inertProvider{}) })
})

// TestOpenByName: Open finds a registered provider by its name, and fails for other names.
func TestOpenByName(t *testing.T) {
	registerStill()
	dev, err := Open("still", DeviceConfig{})
	if err != nil || dev.Caps().Provider != "still" {
		t.Fatalf("Open: %+v, %v, want the provider still", dev, err)
	}
	if _, err := Open("hardware", DeviceConfig{}); err == nil || !slices.Contains(Providers(), "still") {
		t.Fatalf("Open of another name: %v; the providers: %q", err, Providers())
	}
	defer func() {
		if recover() == nil {
			t.Error("two providers of one name")
		}
	}()
	Register("still", nil)
}

// TestServices: the verbs refuse a QP of a service that the provider lacks, and the provider
// refuses one that it cannot make.
func TestServices(t *testing.T) {
	dev := NewDevice(inertProvider{})
	pd, cq := dev.AllocPD(), dev.NewCQ(8)
	if _, err := pd.CreateQP(QPConfig{Service: UC, SendCQ: cq, RecvCQ: cq}); !errors.Is(err, errService) {
		t.Errorf("CreateQP: %v, want %v", err, errService)
	}
	if _, err := pd.CreateQP(QPConfig{Service: UD, SendCQ: cq, RecvCQ: cq}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CreateQP: %v, want %v", err, errors.ErrUnsupported)
	}
	if _, err := pd.CreateQP(QPConfig{SendCQ: cq}); err != errNoCQ {
		t.Errorf("CreateQP: %v, want %v", err, errNoCQ)
	}
	if n := len(pd.each()); n != 0 {
		t.Errorf("%d QPs that could not be made", n)
	}
}

// TestNoStreams: a provider that does not run over streams refuses a stream, and closes the
// caller's stream.
func TestNoStreams(t *testing.T) {
	_, _, qp, _ := stillQP(t)
	a, b := net.Pipe()
	if err := qp.dev.ConnectOver(t.Context(), qp, a, ConnParams{}); err != errNoStream {
		t.Errorf("ConnectOver: %v, want %v", err, errNoStream)
	}
	if _, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Error("the stream is still open: ", err)
	}
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	l := qp.dev.ListenOn(nl)
	if _, err := l.Accept(t.Context()); err != errNoStream {
		t.Errorf("Accept: %v, want %v", err, errNoStream)
	}
	if addr, err := l.Addr(), l.Close(); addr == nil || err != nil {
		t.Errorf("address %v, Close: %v", addr, err)
	}
	if _, err := nl.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

// TestLengthIsSummedOnce: the provider gets the length of each message.
func TestLengthIsSummedOnce(t *testing.T) {
	pd, _, qp, ep := stillQP(t)
	mr, _ := pd.RegMR(make([]byte, 16), LocalWrite)
	if err := qp.PostSend(SendWR{Op: OpWrite, SGL: [][]byte{make([]byte, 3), nil, make([]byte, 4)}},
		SendWR{Op: OpRead, MR: mr, Length: 9}, SendWR{Op: OpLocalInvalidate, MR: mr, Length: 5}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	var got []uint32
	for i := range ep.posted {
		got = append(got, ep.posted[i].Bytes)
	}
	if want := []uint32{7, 9, 0}; !slices.Equal(got, want) {
		t.Errorf("lengths %v, want %v", got, want)
	}
}

// TestCapsAreChecked: operations that the provider lacks are refused at posting.
func TestCapsAreChecked(t *testing.T) {
	_, _, qp, ep := stillQP(t)
	for _, op := range []Opcode{OpImmediate, OpFetchAdd, OpSwap} {
		if err := qp.PostSend(SendWR{Op: op, Atomic: &Atomic{}}); err != errNoExtension {
			t.Errorf("%v: %v", op, err)
		}
	}
	if len(ep.posted) > 0 {
		t.Error("posted all the same")
	}
}

// TestInvalidateTwice: Invalidate releases the memory also if another goroutine has invalidated the
// region and has not released it yet (RFC 5040 §8.1.1 [R5040-209]).
func TestInvalidateTwice(t *testing.T) {
	pd, _, qp, ep := stillQP(t)
	mr, _ := pd.RegMR(make([]byte, 16), RemoteRead)
	q := ep.q
	if _, f := q.Borrow(mr, mr.STag(), mr.Base(), 16, RemoteRead); f != MemOK {
		t.Fatalf("Borrow: %v", f)
	}
	q.Pin(mr)
	q.Return(mr)
	mr.mu.Lock() // as a remote invalidation does first
	mr.valid, mr.buf = false, nil
	mr.mu.Unlock()
	mr.Invalidate()
	if mr.pins.Load() != 0 || !slices.Contains(ep.released, mr) {
		t.Error("something that waits to be sent still points into the memory")
	}
	qp.Close()
	<-qp.Done()
}

// TestConnectionIsDescribedOnce: a QP has no description of a connection before Established, and a
// copy of it afterwards.
func TestConnectionIsDescribedOnce(t *testing.T) {
	_, _, qp, ep := stillQP(t)
	if qp.CRC() || qp.TakesSources() {
		t.Errorf("not connected: CRCs %v, Sources %v, want neither", qp.CRC(), qp.TakesSources())
	}
	private := []byte("hello")
	if !ep.q.Established(Connected{PrivateData: private, CRC: true, Sources: true}) {
		t.Fatal("Established refuses an idle QP")
	}
	copy(private, "later")
	if got := string(qp.PrivateData()); got != "hello" {
		t.Errorf("private data %q after the provider has used its memory again, want %q", got, "hello")
	}
	if !qp.CRC() || !qp.TakesSources() {
		t.Errorf("connected: CRCs %v, Sources %v, want both", qp.CRC(), qp.TakesSources())
	}
	qp.Close()
}

// TestFirstCauseWins: later causes are dropped, and the states follow.
func TestFirstCauseWins(t *testing.T) {
	_, cq, qp, ep := stillQP(t)
	if err := qp.PostRecv(RecvWR{ID: 1}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	if err := qp.dev.Connect(t.Context(), qp, "", ConnParams{IRD: 1, ORD: 2, PrivateData: []byte("x")}); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	must.Equal(t, "the state", qp.State(), StateRTS)
	must.Equal(t, "IRD and ORD", [2]int{qp.IRD(), qp.ORD()}, [2]int{1, 2})
	must.Equal(t, "the private data", string(qp.PrivateData()), "x")
	must.Equal(t, "the bytes moved", qp.Moved(), 42)
	if qp.RemoteAddr() == nil {
		t.Error("no remote address")
	}
	if ep.q.Established(Connected{IRD: 1, ORD: 1}) || qp.dev.Connect(t.Context(), qp, "", ConnParams{}) != ErrState {
		t.Error("connected twice")
	}
	first := errors.New("first")
	if !ep.q.Fail(first, true) || ep.q.Fail(io.EOF, false) {
		t.Error("the first cause is not the one that wins")
	}
	if qp.State() != StateTerminate || !ep.q.Failed() {
		t.Errorf("%v, failed %v, want %v, true", qp.State(), ep.q.Failed(), StateTerminate)
	}
	ep.q.Flushed()
	ep.q.Ended()
	if qp.Err() != first || qp.State() != StateError {
		t.Errorf("Err %v, state %v, want %v, %v", qp.Err(), qp.State(), first, StateError)
	}
	var wc [2]WC
	if n := cq.Poll(wc[:]); n != 1 || wc[0].Status != WCFlushErr || wc[0].QP != qp {
		t.Errorf("%+v", wc)
	}
}

// TestGoodEnd: the end of the stream is no error after Disconnect, and an error otherwise.
func TestGoodEnd(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		_, _, qp, ep := stillQP(t)
		if qp.Disconnect(t.Context()) != ErrState {
			t.Error("Disconnect of a QP that is not connected")
		}
		qp.dev.Connect(t.Context(), qp, "", ConnParams{})
		if wanted {
			if err := qp.Disconnect(t.Context()); err != nil || qp.State() != StateClosing {
				t.Errorf("Disconnect: %v, state %v, want %v", err, qp.State(), StateClosing)
			}
		}
		ep.q.Fail(io.EOF, false)
		if err := qp.Err(); (err == nil) != wanted {
			t.Errorf("Err: %v, want none: %v", err, wanted)
		}
	}
}

// TestEqualReceivesAreOneRun: equal receives take one entry of the ring. They complete one by one,
// and stay in order with different receives.
func TestEqualReceivesAreOneRun(t *testing.T) {
	const depth = 20
	cq := NewDevice(inertProvider{}).NewCQ(2 * depth)
	pd, _, _, _ := stillQP(t)
	qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 4, RQDepth: depth})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	ep := EndpointOf(qp).(*inertEndpoint)
	pool, other := NewBufferPool(64), NewBufferPool(64)
	for range depth - 3 {
		if err := qp.PostRecv(RecvWR{ID: 7, Pool: pool}); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
	}
	if n := len(qp.rq.ring); n != 1 {
		t.Errorf("%d entries for receives that are alike", n)
	}
	if err := qp.PostRecv(RecvWR{ID: 8, Pool: pool}, RecvWR{ID: 8, Pool: other}, RecvWR{ID: 8, Buf: make([]byte, 8), Pool: other}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	if err := qp.PostRecv(RecvWR{ID: 8, Pool: other}); err != ErrRQFull {
		t.Errorf("one more than the depth: %v", err)
	}
	ep.q.PopRecv()
	if err := qp.PostRecv(RecvWR{ID: 7, Pool: pool}); err != nil {
		t.Errorf("one after one was taken: %v", err)
	}
	var want []uint64
	for range depth - 5 {
		want = append(want, 7)
	}
	ep.q.PopRecv()
	want = append(want, 8, 8, 8, 7)
	if wr, ok := ep.q.NextRecv(); !ok || wr.ID != 7 || wr.Pool != pool {
		t.Errorf("the oldest is %+v, %v", wr, ok)
	}
	qp.rq.flush(qp)
	wcs := make([]WC, depth+1)
	n := cq.Poll(wcs)
	if n != len(want) {
		t.Fatalf("%d are flushed, want %d", n, len(want))
	}
	for i, id := range want {
		if wcs[i].ID != id || wcs[i].Status != WCFlushErr {
			t.Errorf("completion %d: %+v, want ID %d flushed", i, wcs[i], id)
		}
	}
}

// TestQueuesWrap: the counters of both queues pass 2^32 during use.
func TestQueuesWrap(t *testing.T) {
	_, cq, qp, ep := stillQP(t)
	const at = 1<<32 - 3
	rq := &qp.rq
	rq.head, rq.tail = at, at
	var sq SendQueue[int]
	sq.Init(ep.q, 4, &sync.Pool{New: func() any { return new(SendChunk[int]) }})
	sq.head, sq.next, sq.tail = at, at, at
	if sq.Room(1) != ErrState {
		t.Error("a queue that is not open takes work")
	}
	sq.Open()
	for round := range uint64(8) {
		if err := qp.PostRecv(RecvWR{ID: round}, RecvWR{ID: round + 100}); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
		for range 2 {
			wr, ok := ep.q.NextRecv()
			if !ok || wr.ID%100 != round {
				t.Fatalf("NextRecv: %+v, %v, want round %d", wr, ok, round)
			}
			ep.q.PopRecv()
		}
		for i := range 4 {
			if err := sq.Room(1); err != nil {
				t.Fatalf("Room: %v", err)
			}
			e := sq.At(sq.Push(&Posted{SendWR: SendWR{ID: round*10 + uint64(i), Unsignaled: i == 1}, Bytes: 7}))
			if e.Done || e.Internal || e.Status != WCSuccess || e.Value != 0 {
				t.Fatalf("an entry keeps values of its last use: %+v", e)
			}
			if sq.Last() != e {
				t.Fatalf("Last is %+v, want %+v", sq.Last(), e)
			}
			e.Internal = i == 2
		}
		if sq.Room(1) != ErrSQFull || sq.Waiting() != 4 {
			t.Fatal("no end to the depth", sq.Waiting())
		}
		for range 4 {
			sq.At(sq.Begin()).Done = true
		}
		told := 0
		if !sq.Retire(func(Status) { told++ }) || told != 1 {
			t.Fatalf("no room, or %d internal completions, want 1", told)
		}
		if !sq.Empty() || sq.Next() != nil {
			t.Fatalf("not retired: %+v", sq.Next())
		}
		var wcs [8]WC
		if n := cq.Poll(wcs[:]); n != 2 || wcs[0].ID != round*10 || wcs[1].ID != round*10+3 || wcs[0].Len != 7 {
			t.Fatalf("%+v", wcs[:n])
		}
	}
}

// TestFlushInOrder: finished work completes as done, the rest as flushed, oldest first, unsignaled
// work too.
func TestFlushInOrder(t *testing.T) {
	_, cq, _, ep := stillQP(t)
	var sq SendQueue[int]
	sq.Init(ep.q, 8, &sync.Pool{New: func() any { return new(SendChunk[int]) }})
	sq.Open()
	for i := range uint64(3) {
		sq.Push(&Posted{SendWR: SendWR{ID: i, Unsignaled: true}})
	}
	sq.Begin()
	sq.At(sq.Begin()).Done = true
	sq.Flush(nil)
	if sq.Room(1) != ErrState || !sq.Empty() {
		t.Error("open after the flush")
	}
	var wcs [4]WC
	if n := cq.Poll(wcs[:]); n != 2 || wcs[0].ID != 0 || wcs[1].ID != 2 || wcs[0].Status != WCFlushErr || wcs[1].Status != WCFlushErr {
		t.Errorf("%+v", wcs[:n])
	}
}

// TestWoken: Woken reports once that completions have woken a goroutine in Wait; without a waiter,
// or on a second call, it reports false.
func TestWoken(t *testing.T) {
	_, cq, qp, ep := stillQP(t)
	defer qp.Close()
	ep.q.CompleteRecv(WC{})
	if ep.q.Woken() {
		t.Error("nobody waits")
	}
	cq.Poll(make([]WC, 8))
	done := make(chan error, 1)
	go func() { done <- cq.Wait(t.Context()) }()
	for waits := false; !waits; runtime.Gosched() {
		cq.mu.Lock()
		waits = cq.idle > 0
		cq.mu.Unlock()
	}
	ep.q.CompleteRecv(WC{})
	if err := <-done; err != nil {
		t.Fatalf("done: %v", err)
	}
	if !ep.q.Woken() || ep.q.Woken() {
		t.Error("it is not told once")
	}
}

// TestBatchWakesOnce: completions within a provider's batch wake a goroutine in Wait at the end of
// the batch, not before. Without a waiter, the end wakes none.
func TestBatchWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cq, qp, ep := stillQP(t)
		defer qp.Close()
		done := make(chan error, 1)
		go func() { done <- cq.Wait(t.Context()) }()
		synctest.Wait()
		if got := ep.q.BeginBatch(); !got {
			t.Fatalf("a batch begins: %v, want true", got)
		}
		for range 2 {
			ep.q.CompleteRecv(WC{})
		}
		synctest.Wait()
		if got := ep.q.Woken(); got {
			t.Errorf("woken within the batch: %v, want false", got)
		}
		if got := ep.q.EndBatch(); !got {
			t.Errorf("woken by the end: %v, want true", got)
		}
		if err := <-done; err != nil {
			t.Errorf("Wait: %v, want nil", err)
		}
		if n := cq.Poll(make([]WC, 8)); n != 2 {
			t.Errorf("%d completions, want 2", n)
		}
		ep.q.BeginBatch()
		ep.q.CompleteRecv(WC{})
		if got := ep.q.EndBatch(); got {
			t.Errorf("woken where no goroutine waits: %v, want false", got)
		}
	})
}
