// CRCs computed by the poster: the bytes are those that the transmitter would have made.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// TestEarlyCRC posts Writes whose CRCs are computed early, in one piece and in
// many, alone, several at once, and more than there is room for.
func TestEarlyCRC(t *testing.T) {
	s := scriptWith(t, rnic.DeviceConfig{CRC: rnic.CRCOn}, rnic.ConnParams{})
	s.open()
	data := noise(600_000)
	warm := rnic.SendWR{ID: 1, Op: rnic.OpWrite, RemoteSTag: 7, SGL: [][]byte{data[:10]}} // the first batch tells the segment size
	post(t, s.qp, warm)
	s.checked(t, data[:10])
	pieces := [][]byte{data[:1], data[1:1], data[1:70_001], data[70_001:70_004], data[70_004:300_001]}
	for _, sgl := range [][][]byte{{data[:earlyCRCMin]}, {data[:earlyCRCMin-1]}, {data[:64_754]}, {data[:64_755]}, {data}, pieces} {
		post(t, s.qp, rnic.SendWR{ID: 2, Op: rnic.OpWrite, RemoteSTag: 7, RemoteTO: 99, SGL: sgl})
		s.checked(t, flat(sgl))
	}
	big := rnic.SendWR{ID: 3, Op: rnic.OpWrite, RemoteSTag: 7, SGL: [][]byte{data}}
	post(t, s.qp, big, warm, big, big, big, big, big, big, rnic.SendWR{ID: 4, Op: rnic.OpWrite, SGL: [][]byte{data, data, data, data}}, big)
	s.checked(t, data)
	s.checked(t, data[:10])
	for range 6 {
		s.checked(t, data)
	}
	s.checked(t, flat([][]byte{data, data, data, data}))
	s.checked(t, data)
	early := s.end.out.Early([]rnic.Posted{{SendWR: big, Bytes: uint32(len(data))}})
	if early == nil || early.n != early.segments(len(data)) {
		t.Fatal("nothing was computed early")
	}
	early.Free()
}

// checked reads FPDUs, CRC and all, up to the end of a message with this payload.
func (s *script) checked(t *testing.T, want []byte) {
	t.Helper()
	for last := false; !last; {
		head := s.hear(2)
		n := int(head[0])<<8 | int(head[1])
		f := append(append([]byte(nil), head...), s.hear(mpa.FPDULen(n)-2)...)
		ulpdu, _, err := mpa.ParseFPDU(f, true)
		if err != nil {
			t.Fatal(err)
		}
		last = ulpdu[0]&0x40 != 0
		payload := ulpdu[14:]
		if len(payload) > len(want) || string(payload) != string(want[:len(payload)]) {
			t.Fatal("payload")
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

// TestEarlyCRCCuts: CRCs made for other cuts than the transmitter's are not used.
func TestEarlyCRCCuts(t *testing.T) {
	l := earlyList{segLen: 100, n: 3, crcs: [earlyCRCMax]uint32{1, 2, 3}}
	if l.cut(120) != 100 || l.cut(100) != 100 {
		t.Fatal("the cut of the CRCs holds")
	}
	for i, n := range []int{100, 100, 50} {
		if crc, ok := l.crc(100*i, n, 250); !ok || crc != uint32(i+1) {
			t.Fatal(i, crc, ok)
		}
	}
	short := l
	if short.cut(99) != 99 || short.n != 0 {
		t.Fatal("the connection has room for less now")
	}
	for _, at := range [][2]int{{0, 60}, {60, 100}, {200, 49}} {
		odd := l
		if _, ok := odd.crc(at[0], at[1], 250); ok || odd.n != 0 {
			t.Fatal("a CRC of other bytes", at)
		}
	}
}
