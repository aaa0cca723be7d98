// rping: the server reads the client's memory and writes it back, over a CM connection.

package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// RpingPort is rping's service port.
const RpingPort = 7174

// rping's defaults and bounds.
const (
	rpingSize       = 64
	rpingMax        = 1 << 16
	rpingMin        = 16 // room for the message's number
	rpingIterations = 10
	rpingDepth      = 8
)

// An rping is one end. Each side has one message in flight at a time.
type rping struct {
	*end
	mr       *rnic.MR // client: source of Reads and target of Writes; server: destination of Reads
	buf      []byte   // mr's memory
	back     *rnic.MR
	received [][]byte // received messages, oldest first
	done     int      // completed work requests not yet waited for
}

// Rping runs rping's test against rping or itself. The client decides the iteration count.
func Rping(ctx context.Context, o Options) (*PingpongReport, error) {
	given := o.Size
	if o.Size == 0 {
		o.Size = rpingSize
	}
	if o.Iterations == 0 && !o.server() {
		o.Iterations = rpingIterations
	}
	o.Service = rnic.RC
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Size < rpingMin || o.Size > rpingMax {
		return nil, fmt.Errorf("--size %d: %d to %d", o.Size, rpingMin, rpingMax)
	}
	if given == 0 && o.server() {
		o.Size = rpingMax // the client announces its messages' length
	}
	e, err := newEnd(ctx, &o, rpingDepth, rpingDepth)
	if err != nil {
		return nil, err
	}
	defer e.close()
	p := &rping{end: e}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	if err := p.reach(ctx, rnic.ConnParams{IRD: 1, ORD: 1}); err != nil {
		return nil, err
	}
	start := time.Now()
	n, err := p.run()
	if err != nil {
		return nil, fmt.Errorf("after %d messages: %w", n, err)
	}
	took := time.Since(start)
	if o.server() {
		e.awaitPeerClose()
	}
	e.finish()
	r := &PingpongReport{Common: Common{Test: "rping", Role: o.role(), Service: serviceNames[o.Service], Local: e.qp.LocalAddr().String(),
		Remote: e.qp.RemoteAddr().String(), Size: o.Size, Iterations: n, Bytes: 2 * uint64(o.Size) * uint64(n), Seconds: took.Seconds()}}
	r.rates()
	return r, nil
}

// prepare allocates memory and posts receives.
func (p *rping) prepare() (err error) {
	p.buf = make([]byte, p.o.Size)
	access := rnic.RemoteRead
	if p.o.server() {
		access = rnic.LocalWrite
	}
	if p.mr, err = p.pd.RegMR(p.buf, access); err != nil {
		return err
	}
	p.in = make([]byte, p.o.Size)
	if p.back, err = p.pd.RegMR(p.in, rnic.RemoteWrite); err != nil {
		return err
	}
	for range rpingDepth {
		if err := p.qp.PostRecv(rnic.RecvWR{Buf: make([]byte, exchange.RegionLen)}); err != nil {
			return err
		}
	}
	return nil
}

// reach connects through the CM, or accepts one client.
func (e *end) reach(ctx context.Context, params rnic.ConnParams) error {
	if !e.o.server() {
		if err := e.o.Device.Connect(ctx, e.qp, e.o.address(), params); err != nil {
			return fmt.Errorf("%s: %w", e.o.Host, err)
		}
		return nil
	}
	return e.accept(ctx, params)
}

// listen listens for a service's clients, at the selected address or at all addresses.
func (o *Options) listen(s rnic.Service) (rnic.Listener, error) {
	at := ":" + strconv.Itoa(o.Port)
	if o.Local.IsValid() {
		at = o.address()
	}
	return o.Device.ListenFor(s, "udp", at)
}

// accept accepts one client through the CM.
func (e *end) accept(ctx context.Context, params rnic.ConnParams) error {
	l, err := e.o.listen(e.o.Service)
	if err != nil {
		return err
	}
	defer l.Close()
	if e.o.Waiting != nil {
		e.o.Waiting(l.Addr())
	}
	return e.admit(ctx, l, params)
}

// admit accepts a listener's next client.
func (e *end) admit(ctx context.Context, l rnic.Listener, params rnic.ConnParams) error {
	r, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	return r.Accept(e.qp, params)
}

// run runs all iterations and returns their number.
func (p *rping) run() (n int, err error) {
	for p.o.server() && (p.o.Iterations == 0 || n < p.o.Iterations) || n < p.o.Iterations {
		if p.o.server() {
			err = p.answer()
		} else {
			err = p.ask(n)
		}
		if err != nil {
			break
		}
		n++
	}
	if p.o.server() && n > 0 && errors.Is(p.qp.Err(), io.EOF) {
		err = nil // the client has finished
	}
	return n, err
}

// ask does a client's iteration: it announces the message's memory and then the memory to write to,
// and compares the two.
func (p *rping) ask(n int) error {
	fill(p.buf, n)
	for _, mr := range []*rnic.MR{p.mr, p.back} {
		if err := p.sendRegion(mr); err != nil {
			return err
		}
		if _, err := p.receiveRegion(); err != nil { // the server has read and written mr
			return err
		}
	}
	end := bytes.IndexByte(p.buf, 0)
	if !bytes.Equal(p.in[:end], p.buf[:end]) {
		return fmt.Errorf("what the server wrote is not what it has read: %q, not %q", p.in[:end], p.buf[:end])
	}
	return nil
}

// fill writes message n's text: its number, letters, NUL.
func fill(b []byte, n int) {
	at := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	const first, last = 'A', 'z'
	for c := first + n%(last-first+1); at < len(b); at++ {
		b[at] = byte(c)
		if c++; c > last {
			c = first
		}
	}
	b[len(b)-1] = 0
}

// answer does a server's iteration: it reads the client's message, confirms the read, and writes
// the message to the announced memory.
func (p *rping) answer() error {
	from, err := p.receiveRegion()
	if err != nil {
		return err
	}
	if from.Size > uint32(len(p.buf)) || from.Size == 0 {
		return fmt.Errorf("the client has messages of %d bytes: 1 to %d are taken", from.Size, len(p.buf))
	}
	err = p.work(rnic.SendWR{Op: rnic.OpRead, MR: p.mr, Length: from.Size, RemoteSTag: rnic.STag(from.RKey), RemoteTO: from.Addr})
	if err == nil {
		err = p.sendRegion(p.mr)
	}
	if err != nil {
		return err
	}
	to, err := p.receiveRegion()
	if err != nil {
		return err
	}
	text := p.buf[:from.Size]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end+1]
	}
	p.o.Size = int(from.Size)
	err = p.work(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{text[:min(len(text), int(to.Size))]}, RemoteSTag: rnic.STag(to.RKey), RemoteTO: to.Addr})
	if err != nil {
		return err
	}
	return p.sendRegion(p.mr)
}

// sendRegion announces a memory region. The server's message is only a confirmation.
func (p *rping) sendRegion(mr *rnic.MR) error {
	b := exchange.AppendRegion(nil, exchange.Region{Addr: mr.Base(), RKey: uint32(mr.STag()), Size: uint32(p.o.Size)})
	return p.work(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{b}})
}

// work posts one work request and waits for its completion.
func (p *rping) work(wr rnic.SendWR) error {
	if err := p.qp.PostSend(wr); err != nil {
		return p.wrap(err)
	}
	for p.done == 0 {
		if err := p.handleCompletion(); err != nil {
			return err
		}
	}
	p.done--
	return nil
}

// receiveRegion waits for the peer's next message.
func (p *rping) receiveRegion() (exchange.Region, error) {
	for len(p.received) == 0 {
		if err := p.handleCompletion(); err != nil {
			return exchange.Region{}, err
		}
	}
	b := p.received[0]
	p.received = p.received[1:]
	r, err := exchange.ParseRegion(b)
	if err != nil {
		return r, fmt.Errorf("a message of %d bytes: is it rping?", len(b))
	}
	return r, nil
}

// handleCompletion handles one completion.
func (p *rping) handleCompletion() error {
	wc, err := p.next()
	switch {
	case err != nil:
		return err
	case wc.Op != rnic.OpRecv:
		p.done++
		return nil
	}
	p.received = append(p.received, bytes.Clone(wc.Buf[:wc.Len]))
	// the peer may have left after its message; the next completion reports that
	_ = p.qp.PostRecv(rnic.RecvWR{Buf: wc.Buf})
	return nil
}
