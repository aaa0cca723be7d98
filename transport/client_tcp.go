// The client's end of a TCP connection: calls out, replies in, many at once.

package transport

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// callSpace is where the stream of a call begins.
const callSpace = 1 << 10

// DialTCP connects to addr ("host:port"). The first connection is tried once;
// its error is a *ConnectError.
func DialTCP(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	c := newClient(cfg, addr)
	c.dial = func(ctx context.Context) (link, error) {
		dial := new(net.Dialer).DialContext
		if cfg.ReservedPort {
			dial = dialReserved
		}
		nc, err := dial(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		l := newTCPLink(nc, &c.cfg)
		if c.cfg.Probe {
			if err := c.probe(ctx, l, c.cfg.RetryTimeout); err != nil {
				l.close(err)
				return nil, err
			}
		}
		return l, nil
	}
	return c.connectFirst(ctx)
}

// Where an outCall is with respect to the one who writes.
const (
	callIdle    = iota // nobody else knows of it
	callQueued         // in out
	callWriting        // somebody writes it
)

// A tcpCall is what an attempt over TCP keeps. The fields are guarded by the
// link's mu until ready has been received.
type tcpCall struct {
	ready chan struct{}   // rec or err is set
	ctx   context.Context // of the attempt
	rec   *octets
	err   error
	state int
	buf   *octets
	mark  [markLen]byte
}

// A tcpLink is one TCP connection of a Client. The caller writes its own call,
// and those of others that came while it was writing; one goroutine reads.
type tcpLink struct {
	nc    net.Conn
	limit time.Duration // for one write
	rd    *recordReader
	wg    sync.WaitGroup

	mu      sync.Mutex
	wrote   sync.Cond // a batch has been written
	pending map[uint32]*outCall
	out     []*outCall
	spare   []*outCall
	writing bool
	err     error // why the connection is of no use any more

	// Owned by the one who writes.
	gather gather
	batch  []*outCall // what it writes
	own    *outCall   // its own call
	moved  time.Time  // when the server last took octets
}

func newTCPLink(nc net.Conn, cfg *ClientConfig) *tcpLink {
	l := &tcpLink{nc: nc, limit: cfg.RetryTimeout, pending: map[uint32]*outCall{}}
	l.wrote.L = &l.mu
	l.rd = newRecordReader(nc, tcpWindow, cfg.MaxRecord)
	l.wg.Go(l.receiveLoop)
	return l
}

func (l *tcpLink) close(why error) error {
	l.abandon(why)
	l.wg.Wait()
	return nil
}

// abandon is the one door by which the connection ends.
func (l *tcpLink) abandon(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = &lostError{err}
	l.nc.Close()
	for _, k := range l.out {
		k.tcp.state = callIdle
	}
	clear(l.out)
	l.out = l.out[:0]
	for _, k := range l.pending {
		k.tcp.err = l.err
		k.tcp.ready <- struct{}{}
	}
	clear(l.pending)
}

// receiveLoop gives each reply to its call.
func (l *tcpLink) receiveLoop() {
	for {
		rec, err := l.rd.next()
		if err != nil {
			l.abandon(err)
			return
		}
		if len(rec.b) < 4 {
			rec.put()
			continue
		}
		xid := binary.BigEndian.Uint32(rec.b)
		l.mu.Lock()
		k := l.pending[xid]
		if k == nil { // its caller has given up
			l.mu.Unlock()
			rec.put()
			continue
		}
		delete(l.pending, xid)
		k.tcp.rec = rec
		l.mu.Unlock()
		k.tcp.ready <- struct{}{}
	}
}

func (l *tcpLink) roundTrip(ctx context.Context, k *outCall) error {
	t := &k.tcp
	t.buf = getOctets(callSpace)
	k.encode(t.buf.b)
	err := l.exchange(ctx, k)
	if err == nil {
		err = k.decode(t.rec.b, nil, false)
	}
	k.enc.Reset(nil)
	k.dec.Reset(nil, nil)
	t.buf.put()
	t.rec.put()
	t.buf, t.rec, t.err = nil, nil, nil
	return err
}

// exchange sends the call and waits for the reply record. When it returns
// nobody else holds k.
func (l *tcpLink) exchange(ctx context.Context, k *outCall) error {
	t := &k.tcp
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return l.err
	}
	l.pending[k.xid] = k
	l.out = append(l.out, k)
	t.state, t.ctx = callQueued, ctx
	l.write(k)

	err := l.await(ctx, k)
	l.settle(k)
	t.ctx = nil
	return err
}

// await waits for the reply, which is in k.tcp.rec when there is no error.
func (l *tcpLink) await(ctx context.Context, k *outCall) (err error) {
	select {
	case <-k.tcp.ready:
		return k.tcp.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-k.expired.C:
		err = errNoAnswer
	}
	if l.withdraw(k) {
		return k.tcp.err // the reply came first
	}
	return err
}

// withdraw makes sure that no reply will be given to k any more, and reports
// whether k was given one, or an error, before that.
func (l *tcpLink) withdraw(k *outCall) bool {
	l.mu.Lock()
	_, waits := l.pending[k.xid]
	delete(l.pending, k.xid)
	l.mu.Unlock()
	if !waits {
		<-k.tcp.ready // it is being given this moment
	}
	return !waits
}

// settle waits until nobody writes k any more. A reply may come before the
// writer has noticed that it is done.
func (l *tcpLink) settle(k *outCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.tcp.state == callQueued {
		for i, q := range l.out {
			if q == k {
				l.out = append(l.out[:i], l.out[i+1:]...)
				break
			}
		}
		k.tcp.state = callIdle
	}
	for k.tcp.state == callWriting {
		l.wrote.Wait()
	}
}

// write writes what is queued, until nothing is, on the goroutine of the call own.
// It is entered with mu locked and returns with mu unlocked.
func (l *tcpLink) write(own *outCall) {
	if l.writing {
		l.mu.Unlock()
		return
	}
	l.writing, l.own = true, own
	for len(l.out) > 0 && l.err == nil {
		batch := l.out
		l.out, l.spare = l.spare[:0], nil
		for _, k := range batch {
			k.tcp.state = callWriting
		}
		l.mu.Unlock()
		err := l.writeBatch(batch)
		l.mu.Lock()
		for i, k := range batch {
			k.tcp.state = callIdle
			batch[i] = nil
		}
		l.spare = batch[:0]
		l.wrote.Broadcast()
		if err != nil {
			l.mu.Unlock()
			l.abandon(err)
			l.mu.Lock()
		}
	}
	l.writing, l.own = false, nil
	l.mu.Unlock()
}

func (l *tcpLink) writeBatch(batch []*outCall) error {
	for _, k := range batch {
		l.gather.message(&k.tcp.mark, &k.enc)
	}
	l.batch, l.moved = batch, time.Now()
	err := l.gather.writeTo(l.nc, l)
	l.batch = nil
	return err
}

// stuckTick is how long a server may take nothing of a call that nobody waits for any more.
const stuckTick = time.Second

func (l *tcpLink) wait() { l.nc.SetWriteDeadline(time.Now().Add(min(stuckTick, l.limit))) }

// goOn is the patience with a server that takes no octets: RetryTimeout, but no
// longer than a call whose octets are at stake is waited for. Half a record has
// been sent then, and the connection is of no use any more.
func (l *tcpLink) goOn(n int64) bool {
	now := time.Now()
	if n > 0 {
		l.moved = now
		return true
	}
	for _, k := range l.batch {
		if k.over(now) {
			return false
		}
	}
	return !l.own.over(now) && now.Sub(l.moved) < l.limit
}

// over tells whether the wait for k has ended.
func (k *outCall) over(now time.Time) bool {
	return k.tcp.ctx.Err() != nil || !k.until.IsZero() && !now.Before(k.until)
}
