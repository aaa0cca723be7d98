// A peer on bare verbs: it sends arbitrary messages and returns the received ones.

package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A rawPeer is one end of a connection with a Conn at the other end.
type rawPeer struct {
	t    testing.TB
	pd   *rnic.PD
	cq   *rnic.CQ
	qp   *rnic.QP
	bufs [64][]byte
	inv  rnic.STag // invalidated by the last message
	sent int       // send completions seen
}

func newRawPeer(t testing.TB, dev *rnic.Device) *rawPeer {
	p := &rawPeer{t: t, pd: dev.AllocPD(), cq: dev.NewCQ(2048)}
	qp, err := p.pd.CreateQP(rnic.QPConfig{SendCQ: p.cq, RecvCQ: p.cq, SQDepth: 512, RQDepth: len(p.bufs)})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	p.qp = qp
	for i := range p.bufs {
		p.bufs[i] = make([]byte, 8192)
		if err := qp.PostRecv(rnic.RecvWR{ID: uint64(i), Buf: p.bufs[i]}); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
	}
	t.Cleanup(func() { qp.Close() })
	return p
}

// rawRequester connects a rawPeer to a serving Conn.
func rawRequester(t testing.TB, cfg Config, private []byte) (*rawPeer, *Conn) {
	dev, l := listen(t)
	defer l.Close()
	accepted := make(chan *Conn, 1)
	go func() {
		defer close(accepted)
		if req, err := l.Accept(context.Background()); err == nil {
			if c, err := Accept(dev, req, cfg); err == nil {
				accepted <- c
			}
		}
	}()
	p := newRawPeer(t, dev)
	if err := dev.Connect(t.Context(), p.qp, l.Addr().String(), rnic.ConnParams{PrivateData: private}); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	c := <-accepted
	if c == nil {
		t.Fatal("not accepted")
	}
	t.Cleanup(func() { c.Close() })
	return p, c
}

// rawResponder accepts the connection of a calling Conn.
func rawResponder(t testing.TB, cfg Config, private []byte) (*rawPeer, *Conn) {
	dev, l := listen(t)
	defer l.Close()
	p := newRawPeer(t, dev)
	accepted := make(chan error, 1)
	go func() {
		req, err := l.Accept(context.Background())
		if err == nil {
			err = req.Accept(p.qp, rnic.ConnParams{PrivateData: private})
		}
		accepted <- err
	}()
	c, err := Dial(t.Context(), dev, l.Addr().String(), cfg)
	if err = errors.Join(err, <-accepted); err != nil {
		t.Fatalf("Dial and Accept: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return p, c
}

// send sends one message.
func (p *rawPeer) send(msg []byte) {
	p.t.Helper()
	if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{bytes.Clone(msg)}}); err != nil {
		p.t.Fatalf("PostSend: %v", err)
	}
}

// next returns the next message, or nil with the reason why none can come.
func (p *rawPeer) next() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		var wc [1]rnic.WC
		if p.cq.Poll(wc[:]) == 0 {
			if err := p.cq.Wait(ctx); err != nil {
				return nil, err
			}
			continue
		}
		switch {
		case wc[0].Status != rnic.WCSuccess:
			<-p.qp.Done()
			return nil, errors.Join(errors.New("the connection ended"), p.qp.Err())
		case wc[0].Op != rnic.OpRecv:
			p.sent++
		default:
			b := p.bufs[wc[0].ID]
			msg := bytes.Clone(b[:wc[0].Len])
			p.inv = wc[0].Invalidated
			return msg, p.qp.PostRecv(rnic.RecvWR{ID: wc[0].ID, Buf: b})
		}
	}
}

// want requires exactly these bytes as next message.
func (p *rawPeer) want(name string, want []byte) {
	p.t.Helper()
	got, err := p.next()
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	if !bytes.Equal(got, want) {
		p.t.Fatalf("%s:\ngot  %x\nwant %x", name, got, want)
	}
}

// null sends a NULL call and requires its reply as the next message: so no other message was sent
// before, and the connection still serves calls.
func (p *rawPeer) null(name string) {
	p.t.Helper()
	xid := 0xee000000 | nextXID.Add(1)
	p.send(words(xid, 1, 1, 0, 0, 0, 0, xid, 0, procNull))
	p.want(name+", then NULL", words(xid, 1, grant, 0, 0, 0, 0, xid, 1, 0))
}

// expose registers b for the test's duration.
func (p *rawPeer) expose(b []byte, access rnic.Access) *rnic.MR {
	mr, err := p.pd.RegMR(b, access)
	if err != nil {
		p.t.Fatalf("RegMR: %v", err)
	}
	return mr
}

// part returns the words of a segment: handle, length, offset.
func part(mr *rnic.MR, off, n int) []uint32 {
	to := mr.Base() + uint64(off)
	return []uint32{uint32(mr.STag()), uint32(n), uint32(to >> 32), uint32(to)}
}

// words packs words into bytes; slices of words are laid out in place.
func words(ws ...any) (b []byte) {
	for _, w := range ws {
		switch w := w.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(w))
		case uint32:
			b = binary.BigEndian.AppendUint32(b, w)
		case []uint32:
			for _, v := range w {
				b = binary.BigEndian.AppendUint32(b, v)
			}
		case []byte:
			b = append(b, w...)
		}
	}
	return b
}

// grant is the number of credits granted by the Conns of these tests.
const grant = 8

// queued returns the number of calls waiting for a credit.
func (c *Conn) queued() (n int) {
	c.requester.mu.Lock()
	defer c.requester.mu.Unlock()
	for k := c.requester.credits.head; k != nil; k = k.next {
		n++
	}
	return n
}

func yield() { time.Sleep(100 * time.Microsecond) }

// outstanding returns the number of calls holding a credit.
func (c *Conn) outstanding() int {
	c.requester.mu.Lock()
	defer c.requester.mu.Unlock()
	return c.requester.credits.inflight
}
