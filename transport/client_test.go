// The client's bytes, and its handling of invalid replies.

package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// scripted serves TCP connections one after the other by a script.
func scripted(t *testing.T, script func(n int, nc net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			nc.SetDeadline(time.Now().Add(time.Minute))
			script(n, nc)
			nc.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// readCall reads one record.
func readCall(nc net.Conn) []byte {
	rec, err := newRecordReader(nc, 64, 1<<20).next()
	if err != nil {
		return nil
	}
	return rec.B
}

// sumReply returns ADD's reply to a call.
func sumReply(call []byte, v uint32) []byte {
	var e xdr.Encoder
	h := oncrpc.ReplyHeader{XID: xdr.NewDecoder(call).Uint32()}
	h.EncodeXDR(&e)
	e.Uint32(v)
	return fragment(e.Bytes(), true)
}

func TestCallGolden(t *testing.T) {
	calls := make(chan []byte, 1)
	addr := scripted(t, func(_ int, nc net.Conn) {
		call := readCall(nc)
		calls <- call
		nc.Write(sumReply(call, 3))
		io.Copy(io.Discard, nc)
	})
	cred := Cred{Flavor: oncrpc.FlavorSys, Machine: "ab", UID: 1000, GID: 100, GIDs: []uint32{5, 6}}
	c, err := DialTCP(bg, addr, ClientConfig{Cred: cred})
	if err != nil {
		t.Fatalf("DialTCP: %v", err)
	}
	defer c.Close()
	c.xid.Store(0xbeee)
	out := words{0}
	if err := c.Call(bg, testProc(tAdd), words{1, 2}, out, nil, 0); err != nil || out[0] != 3 {
		t.Errorf("%v, %v", out, err)
	}
	want := unhex("0000beef 00000000 00000002 20000a11 00000003 00000001" +
		"00000001 00000020 00000000 00000002 61620000 000003e8 00000064 00000002 00000005 00000006" +
		"00000000 00000000 00000001 00000002")
	if got := <-calls; !bytes.Equal(got, want) {
		t.Errorf("call\n%x, want\n%x", got, want)
	}
}

// Fragmented replies, replies for unknown calls, and invalid data that breaks the stream: the
// call succeeds, over a new connection if necessary.
func TestInvalidStream(t *testing.T) {
	for name, script := range map[string]func(n int, nc net.Conn, call []byte){
		"fragments": func(_ int, nc net.Conn, call []byte) {
			r := sumReply(call, 3)[markLen:]
			nc.Write(fragment(r[:5], false))
			nc.Write(fragment(nil, false))
			nc.Write(fragment(r[5:], true))
		},
		"replies to nobody": func(_ int, nc net.Conn, call []byte) {
			nc.Write(fragment([]byte{1}, true))
			nc.Write(fragment(nil, true))
			nc.Write(sumReply([]byte{9, 9, 9, 9}, 7))
			nc.Write(sumReply(call, 3))
			nc.Write(sumReply(call, 8))
		},
		"record over the limit": func(n int, nc net.Conn, call []byte) {
			if n == 0 {
				nc.Write([]byte{0xff, 0xff, 0xff, 0xff})
				return
			}
			nc.Write(sumReply(call, 3))
		},
		"half a reply": func(n int, nc net.Conn, call []byte) {
			r := sumReply(call, 3)
			if n == 0 {
				r = r[:len(r)-1]
			}
			nc.Write(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			addr := scripted(t, func(n int, nc net.Conn) {
				if call := readCall(nc); call != nil {
					script(n, nc, call)
				}
				if n > 0 || !strings.Contains(name, "half") {
					io.Copy(io.Discard, nc)
				}
			})
			c, err := DialTCP(bg, addr, ClientConfig{CallTimeout: 10 * time.Second})
			if err != nil {
				t.Fatalf("DialTCP: %v", err)
			}
			defer c.Close()
			out := words{0}
			if err := c.Call(bg, testProc(tAdd), words{1, 2}, out, nil, 0); err != nil || out[0] != 3 {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
}

// Each truncated reply is ErrBadReply, never a result.
func TestReplyTruncated(t *testing.T) {
	whole := sumReply([]byte{0, 0, 0, 1}, 3)[markLen:]
	for n := range whole {
		k := new(Client).newOutCall()
		k.proc, k.res = testProc(tAdd), words{0}
		if err := k.decode(whole[:n], nil, false); !errors.Is(err, ErrBadReply) {
			t.Errorf("%d bytes: %v", n, err)
		}
		k.recycle()
	}
}

// An item must arrive the offered way (RFC 8166 §6.1 [R8166-190 R8166-191]).
func TestItemsOfReplies(t *testing.T) {
	conformance.Proves(t, "R8166-083", "R8166-190", "R8166-191")
	var e, flat xdr.Encoder
	h := oncrpc.ReplyHeader{XID: 1}
	h.EncodeXDR(&e)
	h.EncodeXDR(&flat)
	data := []byte("0123456789")
	e.Uint32(10)
	e.Uint32(10) // the length word of the removed item
	flat.Uint32(10)
	flat.Opaque(data)
	item := []xdr.Item{{Off: xdr.AnyOffset, Data: data}}
	for _, tc := range []struct {
		name    string
		stream  []byte
		items   []xdr.Item
		reduced bool
		bad     bool
	}{
		{"by Write chunk", e.Bytes(), item, true, false},
		{"inline, nothing offered", flat.Bytes(), nil, false, false},
		{"inline though a Write chunk was offered", flat.Bytes(), nil, true, true},
		{"other length", e.Bytes(), []xdr.Item{{Off: xdr.AnyOffset, Data: data[:9]}}, true, true},
		{"two", e.Bytes(), append(item, item...), true, true},
	} {
		k := new(Client).newOutCall()
		var r readRes
		k.proc, k.res, k.sink = testProc(tRead), &r, make([]byte, 16)
		err := k.decode(tc.stream, tc.items, tc.reduced)
		if errors.Is(err, ErrBadReply) != tc.bad || (!tc.bad && !bytes.Equal(r.data, data)) {
			t.Errorf("%s: %q, %v", tc.name, r.data, err)
		}
		k.recycle()
	}
}
