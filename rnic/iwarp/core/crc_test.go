// CRCs of sent FPDUs.

package core

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// TestWriteCRC: each FPDU of a Write has the CRC of its bytes, for payload in one slice or many,
// posted alone or with others.
func TestWriteCRC(t *testing.T) {
	s := scriptWith(t, rnic.DeviceConfig{CRC: rnic.CRCOn}, rnic.ConnParams{})
	s.open()
	data := noise(600_000)
	small := rnic.SendWR{ID: 1, Op: rnic.OpWrite, RemoteSTag: 7, SGL: [][]byte{data[:10]}}
	pieces := [][]byte{data[:1], data[1:1], data[1:70_001], data[70_001:70_004], data[70_004:300_001]}
	for _, sgl := range [][][]byte{{data[:10]}, {data[:16_384]}, {data[:64_754]}, {data[:64_755]}, {data}, pieces} {
		post(t, s.qp, rnic.SendWR{ID: 2, Op: rnic.OpWrite, RemoteSTag: 7, RemoteTO: 99, SGL: sgl})
		s.checked(t, flat(sgl))
	}
	big := rnic.SendWR{ID: 3, Op: rnic.OpWrite, RemoteSTag: 7, SGL: [][]byte{data}}
	post(t, s.qp, big, small, big, big, big, big, big, big, rnic.SendWR{ID: 4, Op: rnic.OpWrite, SGL: [][]byte{data, data, data, data}}, big)
	s.checked(t, data)
	s.checked(t, data[:10])
	for range 6 {
		s.checked(t, data)
	}
	s.checked(t, flat([][]byte{data, data, data, data}))
	s.checked(t, data)
}

// checked reads FPDUs with their CRCs up to the end of a message with this payload.
func (s *script) checked(t *testing.T, want []byte) {
	t.Helper()
	for last := false; !last; {
		head := s.hear(2)
		n := int(head[0])<<8 | int(head[1])
		f := append(append([]byte(nil), head...), s.hear(mpa.FPDULen(n)-2)...)
		ulpdu, _, err := mpa.ParseFPDU(f, true)
		if err != nil {
			t.Fatalf("ParseFPDU: %v", err)
		}
		last = ulpdu[0]&0x40 != 0
		payload := ulpdu[14:]
		if !bytes.HasPrefix(want, payload) {
			t.Fatalf("payload of %d bytes, want the next of %d", len(payload), len(want))
		}
		want = want[len(payload):]
	}
	if len(want) > 0 {
		t.Fatalf("%d bytes are missing", len(want))
	}
}

func flat(sgl [][]byte) (b []byte) {
	for _, p := range sgl {
		b = append(b, p...)
	}
	return b
}
