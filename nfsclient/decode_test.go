// Decoding results into the caller's memory: inline, in place, too long, and fuzzed.

package nfsclient

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// readReply returns an encoded READ result with inline data.
func readReply(data []byte) []byte {
	e := xdr.NewEncoder(nil)
	(&nfs3.ReadRes{Count: uint32(len(data)), EOF: true}).EncodeXDR(e)
	e.Truncate(e.Len() - 4) // without the length word
	e.Opaque(data)
	return e.Bytes()
}

// Data is placed in the sink, whether inline or not, and nowhere else.
func TestReadPlacement(t *testing.T) {
	data := []byte("hello world")
	reply := readReply(data)
	for n := range 20 {
		backing := bytes.Repeat([]byte{0xA5}, 24)
		op := &readOp{sink: backing[:n:n]}
		d := xdr.NewDecoder(reply)
		op.DecodeXDR(d)
		if n < len(data) {
			if d.Err() == nil || op.n != 0 {
				t.Errorf("room for %d: %d bytes, %v, want an error", n, op.n, d.Err())
			}
			if untouched := bytes.Count(backing, []byte{0xA5}); untouched != 24 {
				t.Errorf("room for %d: %d bytes untouched, want 24", n, untouched)
			}
			continue
		}
		if d.Err() != nil || op.n != len(data) {
			t.Errorf("room for %d: %d bytes, %v, want %d", n, op.n, d.Err(), len(data))
		}
		if want := append(bytes.Clone(data), bytes.Repeat([]byte{0xA5}, 24-len(data))...); !bytes.Equal(backing, want) {
			t.Errorf("room for %d: got %q, want %q", n, backing, want)
		}
	}
	// The data is in place already: the item starts where the sink starts.
	sink := append([]byte(nil), data...)
	op := &readOp{sink: sink}
	var d xdr.Decoder
	stream := reply[:len(reply)-xdr.RoundUp(len(data))]
	d.Reset(stream, []xdr.Item{{Off: xdr.AnyOffset, Data: sink}})
	if op.DecodeXDR(&d); d.Err() != nil || op.n != len(data) {
		t.Errorf("in place: %d bytes, %v, want %d", op.n, d.Err(), len(data))
	}
	if !bytes.Equal(sink, data) {
		t.Errorf("in place: got %q, want %q", sink, data)
	}
}

func FuzzResults(f *testing.F) {
	f.Add(readReply([]byte("some data")), 9)
	f.Add(readReply(nil), 0)
	e := xdr.NewEncoder(nil)
	(&nfs3.ReadlinkRes{}).EncodeXDR(e)
	e.Truncate(e.Len() - 4)
	e.Opaque([]byte("../target"))
	f.Add(e.Bytes(), 3)
	for i := range readReply([]byte("x")) {
		f.Add(readReply([]byte("x"))[:i], 1)
	}
	f.Fuzz(func(t *testing.T, b []byte, room int) {
		op := &readOp{sink: make([]byte, room&0xffff)}
		d := xdr.NewDecoder(b)
		if op.DecodeXDR(d); op.n > len(op.sink) {
			t.Fatalf("%d bytes in room for %d", op.n, len(op.sink))
		}
		var link linkRes
		link.DecodeXDR(xdr.NewDecoder(b))
		if len(link.path) > nfs3.MaxPath || len(link.path) > len(b) {
			t.Fatalf("a path of %d bytes out of %d", len(link.path), len(b))
		}
		new(rpcbind.PortRes).DecodeXDR(xdr.NewDecoder(b))
	})
}
