// The share of a bulk stream that goes through the receive buffer.

package core

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// writeStream returns a sender's stream for count RDMA Writes of payload, each with a small Send
// after it.
func writeStream(t *testing.T, m Modes, mss, count int, payload []byte, stag rnic.STag, to uint64) []byte {
	t.Helper()
	s := newSide(t, rnic.DeviceConfig{}, 2*count)
	s.end.mss, s.end.room = mss, 1<<30
	s.end.start(m, 1, 1, false)
	for range count {
		post(t, s.qp, rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{payload}, RemoteSTag: stag, RemoteTO: to, Unsignaled: true},
			rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 180)}})
	}
	return s.end.sent
}

// TestBulkIsReceivedInPlace: in bulk traffic only headers, the short ends of messages and, with
// CRCs, their first segments go through the buffer. This holds for any TCP segments, with the whole
// stream ready to be read.
func TestBulkIsReceivedInPlace(t *testing.T) {
	const count, tail, window = 8, 2 << 10, 256 << 10
	payload := noise(1 << 20)
	for _, m := range []Modes{{Direct: true}, {Direct: true, CRC: true}} {
		for _, mss := range []int{32741, 65483, 40_000} {
			t.Run(fmt.Sprintf("crc=%v, segments of %d", m.CRC, mss), func(t *testing.T) {
				s := newSide(t, rnic.DeviceConfig{}, 2*count)
				s.end.start(m, 1, 1, false)
				mr, err := s.pd.RegMR(make([]byte, len(payload)), rnic.RemoteWrite)
				if err != nil {
					t.Fatalf("RegMR: %v", err)
				}
				for i := range uint64(count) {
					recv(t, s.qp, i, make([]byte, 256))
				}
				stream := writeStream(t, m, mss, count, payload, mr.STag(), mr.Base())
				in, total, buffered := &s.end.in, len(stream), 0
				var b []byte
				take := func(n int) []byte {
					p := stream[:min(n, len(stream))]
					stream = stream[len(p):]
					return p
				}
				for len(stream) > 0 {
					if in.Direct() > 0 {
						p, ok := in.Borrow()
						if !ok {
							t.Fatal("no memory")
						}
						got := take(len(p) + tail)
						in.Return(copy(p, got) + max(0, len(got)-len(p)))
						b = append(b, got[min(len(p), len(got)):]...)
					} else {
						n := in.Limit(b, tail)
						if n == 0 {
							n = window
						}
						b = append(b, take(n)...)
					}
					before := len(b)
					used, err := in.Consume(b)
					if err != nil {
						t.Fatalf("Consume: %v", err)
					}
					b = b[used:]
					if len(stream) < total-window { // by then the receiver expects large segments
						buffered += before - len(b)
					}
				}
				if !bytes.Equal(bufOf(mr), payload) {
					t.Error("other bytes were placed")
				}
				// The buffer gets the start of each segment, and one short segment for each
				// message.
				most := (total/mss+2*count)*tail + count*directMin
				if m.CRC {
					most += count * mss
				}
				if buffered > most {
					t.Errorf("%d of %d bytes came through the buffer, want no more than %d", buffered, total, most)
				}
			})
		}
	}
}
