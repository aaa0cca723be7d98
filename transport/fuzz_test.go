// Arbitrary bytes as records, and each record as a call and a reply.

package transport

import (
	"bytes"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// FuzzRecords: the first byte is the record reader's window, the second the offset and length of
// an item removed from each message; the rest is the stream.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{7, 0, 0x80, 0, 0, 4, 1, 2, 3, 4})
	f.Add([]byte{1, 0, 0, 0, 0, 1, 9, 0x80, 0, 0, 0})
	f.Add([]byte{64, 0, 0xff, 0xff, 0xff, 0xff, 0})
	add := func(item byte, m []byte) { f.Add(append([]byte{99, item, 0x80, 0, 0, byte(len(m))}, m...)) }
	add(0, unhex("0000beef 00000000 00000002 20000a11 00000003 00000001"+noAuth+"00000001 00000002"))
	add(48/4|3<<5, writeCall(10, tWrite))
	add(44/4|1<<5, writeCall(10, tCount))
	add(0, sumReply([]byte{0, 0, 0, 1}, 3)[markLen:])
	add(0, unhex("0000beef 00000001 00000001 00000001 00000005"))
	add(3<<5, unhex("00000001 00000001 00000000 00000000 00000000 00000000 0000000a 0000000a"))
	s, p := newTestServer(f)
	p.release()
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 {
			return
		}
		const limit = 1000
		window, item, stream := int(b[0]), b[1], b[2:]
		got, err := records(bytes.NewReader(stream), window+markLen, limit)
		if err == nil {
			t.Fatal("no error at the end")
		}
		again, err2 := records(iotest.OneByteReader(bytes.NewReader(stream)), 512, limit)
		if !slices.EqualFunc(got, again, bytes.Equal) || err.Error() != err2.Error() {
			t.Errorf("how the stream is cut makes a difference: %v, %v", err, err2)
		}
		for _, rec := range got[:min(len(got), 20)] {
			if len(rec) > limit {
				t.Errorf("record of %d bytes", len(rec))
			}
			m := chunks.Message{Stream: rec}
			if n := [...]int{0, 1, 3, 10, 64, 400, 401, 5000}[item>>5]; n > 0 {
				m.Items = []xdr.Item{{Off: int(item&31) * 4, Data: make([]byte, n)}}
			}
			fuzzReply(t, m)
			fuzzDispatch(t, s, m)
			select { // drain HOLD's notifications
			case <-p.entered:
			default:
			}
		}
	})
}

// fuzzReply decodes the message as a reply to READ, with its item already in the sink.
func fuzzReply(t *testing.T, m chunks.Message) {
	k := new(Client).newOutCall()
	defer k.recycle()
	var r readRes
	k.proc, k.res, k.sink = testProc(tRead), &r, make([]byte, 64)
	var items []xdr.Item
	if len(m.Items) > 0 && len(m.Items[0].Data) <= len(k.sink) {
		items = []xdr.Item{{Off: xdr.AnyOffset, Data: k.sink[:len(m.Items[0].Data)]}}
	}
	if k.decode(m.Stream, items, false) == nil && len(r.data) > len(m.Stream)+len(k.sink) {
		t.Errorf("%d bytes of data from %d", len(r.data), len(m.Stream))
	}
}

// fuzzDispatch expects each call to end, and each reply to match its call.
func fuzzDispatch(t *testing.T, s *Server, m chunks.Message) {
	got := newTape("10.0.0.1").do(s, m)
	if got.how != "reply" {
		return
	}
	var h oncrpc.ReplyHeader
	d := xdr.NewDecoder(got.reply)
	h.DecodeXDR(d)
	if d.Err() != nil || !bytes.Equal(got.reply[:4], m.Stream[:4]) {
		t.Errorf("reply %x: %v", got.reply, d.Err())
	}
}
