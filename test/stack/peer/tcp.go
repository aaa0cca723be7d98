// A scripted client of ONC RPC over TCP, with hand-made record marks.

package peer

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TCP is one connection. It belongs to one goroutine.
type TCP struct {
	T testing.TB
	C net.Conn
}

// DialTCP connects.
func DialTCP(t testing.TB, addr string) *TCP { t.Helper(); return DialTCPFrom(t, "", addr) }

// DialTCPFrom connects like DialTCP, from a local address.
func DialTCPFrom(t testing.TB, local, addr string) *TCP {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return &TCP{t, c}
}

// Mark returns a record mark.
func Mark(n int, last bool) []byte {
	v := uint32(n)
	if last {
		v |= 1 << 31
	}
	return binary.BigEndian.AppendUint32(nil, v)
}

// Say sends raw bytes. A connection closed by the server is no failure.
func (p *TCP) Say(b []byte) {
	p.T.Helper()
	if _, err := p.C.Write(b); err != nil && !gone(err) {
		p.T.Fatal(err)
	}
}

// Message sends a record of one fragment.
func (p *TCP) Message(msg []byte) { p.T.Helper(); p.Say(append(Mark(len(msg), true), msg...)) }

// Next returns the next record, or io.EOF if the connection has ended.
func (p *TCP) Next() ([]byte, error) {
	var mark [4]byte
	var msg []byte
	for {
		if _, err := io.ReadFull(p.C, mark[:]); err != nil {
			if gone(err) {
				err = io.EOF
			}
			return nil, err
		}
		v := binary.BigEndian.Uint32(mark[:])
		part := make([]byte, v&^(1<<31))
		if _, err := io.ReadFull(p.C, part); err != nil {
			return nil, err
		}
		if msg = append(msg, part...); v>>31 == 1 {
			return msg, nil
		}
	}
}

// Want reads a reply.
func (p *TCP) Want(what string) (h oncrpc.ReplyHeader, d *xdr.Decoder) {
	p.T.Helper()
	msg, err := p.Next()
	if err != nil {
		p.T.Fatalf("%s: wanted a reply: %v", what, err)
	}
	d = xdr.NewDecoder(msg)
	if h.DecodeXDR(d); d.Err() != nil {
		p.T.Fatalf("%s: reply %x: %v", what, msg, d.Err())
	}
	return h, d
}

// WantEnd expects the connection to end without further messages.
func (p *TCP) WantEnd(what string) {
	p.T.Helper()
	if msg, err := p.Next(); !errors.Is(err, io.EOF) {
		p.T.Fatalf("%s: got %x, %v, want the end", what, msg, err)
	}
}

// Null calls NULL and expects its reply next, so the connection still works.
func (p *TCP) Null(what string) {
	p.T.Helper()
	xid := XID()
	p.Message(NFS(xid, nfs3.ProcNull, nil))
	if h, _ := p.Want(what); h.XID != xid || !h.OK() {
		p.T.Fatalf("%s: then NULL: got %+v", what, h)
	}
}
