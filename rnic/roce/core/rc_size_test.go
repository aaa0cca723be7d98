// RC on networks that drop long packets.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A narrowPath network drops datagrams above a limit in bytes, until packets have been overdue some
// times in a row.
type narrowPath struct {
	toB, toA int // limits; 0: all is lost
	heals    uint8
}

// pass delivers the frames that the network does not drop to a side.
func pass(s *side, limit int, fs []frame) {
	for _, f := range fs {
		if len(f.datagram) <= limit {
			s.take(f)
		}
	}
}

// run exchanges packets over the network until a has nothing outstanding, or has ended.
func (n narrowPath) run(a, b *side) (overdue uint8) {
	for a.qp.Outstanding() && a.state() == RTS {
		limits := n
		if n.heals != 0 && a.qp.req.retries >= n.heals {
			limits.toA, limits.toB = MaxPacket, MaxPacket
		}
		fs, gs := a.send(), b.send()
		if pass(b, limits.toB, fs); len(fs)+len(gs) == 0 {
			overdue = a.qp.req.retries + 1
			a.qp.req.probe = 0
			a.tick(a.qp.req.deadline)
		}
		pass(a, limits.toA, gs)
	}
	return overdue
}

// TestTooLong: a QP with repeatedly lost long packets, in either direction, ends after five
// losses if short ones are acknowledged. The error has their length. Short packets change nothing
// if they are lost too, if only they are lost, or if the long ones arrive in the end.
func TestTooLong(t *testing.T) {
	const fits = 1200
	for name, c := range map[string]struct {
		op    rnic.Opcode
		bytes int
		narrowPath
		want    int // TooLong.Bytes
		retries error
	}{
		"Send":                          {rnic.OpSend, 5000, narrowPath{fits, fits, 0}, 4096, nil},
		"Send of one packet":            {rnic.OpSend, 2000, narrowPath{fits, fits, 0}, 2000, nil},
		"Write":                         {rnic.OpWrite, 9000, narrowPath{fits, fits, 0}, 4096, nil},
		"Write with a long end":         {rnic.OpWrite, 4096 + 257, narrowPath{300, 300, 0}, 4096, nil},
		"Write, wide on the way back":   {rnic.OpWrite, 9000, narrowPath{fits, MaxPacket, 0}, 4096, nil},
		"Read":                          {rnic.OpRead, 9000, narrowPath{fits, fits, 0}, 4096, nil},
		"Read, wide on the way there":   {rnic.OpRead, 9000, narrowPath{MaxPacket, fits, 0}, 4096, nil},
		"shortest path MTU and more":    {rnic.OpWrite, 257, narrowPath{256, 256, 0}, 257, nil},
		"shortest path MTU":             {rnic.OpWrite, 256, narrowPath{255, 255, 0}, 0, ErrRetry},
		"nothing comes":                 {rnic.OpSend, 5000, narrowPath{0, MaxPacket, 0}, 0, ErrRetry},
		"no answer comes":               {rnic.OpSend, 5000, narrowPath{MaxPacket, 0, 0}, 0, ErrRetry},
		"long ones come at last":        {rnic.OpWrite, 9000, narrowPath{fits, fits, 4}, 0, nil},
		"data of a Read comes at last":  {rnic.OpRead, 9000, narrowPath{fits, fits, 4}, 0, nil},
		"short ones alone are too long": {rnic.OpSend, 200, narrowPath{100, 100, 0}, 0, ErrRetry},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := reliables(t, 4096, 5, nil)
			b.recv(7, 6000)
			far, _ := b.host.region(t, c.bytes, rnic.RemoteRead|rnic.RemoteWrite)
			wr := rnic.SendWR{ID: 1, Op: c.op, RemoteSTag: far.STag(), RemoteTO: far.Base()}
			if c.op == rnic.OpRead {
				wr.MR, _ = a.host.region(t, c.bytes, rnic.LocalWrite)
				wr.Length = uint32(c.bytes)
			} else {
				wr.SGL = [][]byte{pattern(c.bytes, 1)}
			}
			a.post(wr)
			overdue := c.run(a, b)
			var long *TooLong
			err := a.vqp.Err()
			switch {
			case c.want == 0 && c.retries == nil:
				if a.state() != RTS || err != nil {
					t.Errorf("%v, %v", a.state(), err)
				}
			case c.retries != nil:
				if !errors.Is(err, c.retries) || errors.As(err, &long) {
					t.Errorf("ended by %v, want %v", err, c.retries)
				}
			case !errors.As(err, &long) || !errors.Is(err, rnic.ErrConnLost):
				t.Errorf("ended by %v, want a TooLong", err)
			case long.Bytes != c.want || overdue != shortAfter+shortEnough:
				t.Errorf("%d bytes are too long after %d overdue answers, want %d after %d", long.Bytes, overdue, c.want, shortAfter+shortEnough)
			}
			if c.op != rnic.OpSend || c.want != 0 {
				b.none() // short packets are no messages
			}
			if a.state() == RTS && a.qp.req.sizing != (sizing{}) {
				t.Errorf("the state of sizing is %+v, want its zero value", a.qp.req.sizing)
			}
		})
	}
}

// TestShortPacket: a short packet is a Send without data before the oldest packet. It travels
// alone, and its acknowledge counts once.
func TestShortPacket(t *testing.T) {
	a, b := reliables(t, 1024, 0, nil)
	b.recv(0, 10)
	a.post(rnic.SendWR{ID: 1, SGL: [][]byte{pattern(600, 1)}})
	a.says("SEND Only 0 A; ")
	for range shortAfter - 1 {
		a.qp.req.probe = 0
		a.tick(a.qp.req.deadline)
		a.says("SEND Only 0 A; ")
	}
	a.tick(a.qp.req.deadline)
	_, r, _ := a.qp.Next(0, make([]byte, MaxPacket))
	if !r.Again {
		t.Error("the short packet can be joined with others")
	}
	a.qp.req.short = shortDue
	fs := a.says("SEND Only ffffff A; SEND Only 0 A; ")
	b.take(fs[0])
	acks := b.says("Acknowledge ffffff ACK 0; ")
	// A late NAK is no acknowledgement.
	a.dropped(a.say(packet.RCAck, 0xffffff, nil, func(h *packet.Header) { h.AETH.Syndrome = packet.NAK(packet.NAKSequence) }), DropPSN)
	if got := a.qp.req.shorts; got != 0 {
		t.Errorf("%d short packets have passed, want none", got)
	}
	for range 2 {
		a.dropped(acks[0], DropPSN)
	}
	if got := a.qp.req.shorts; got != 1 {
		t.Errorf("%d short packets have passed, want 1", got)
	}
	b.take(fs[1])
	exchange(a, b)
	if len(a.completions()) != 1 {
		t.Error("the message is not complete")
	}
}
