// Payload from a Source: the stream equals that of the same bytes in memory, for any stop of TCP
// and any end.

package core

import (
	"bytes"
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A reader is a Source with its bytes in memory.
type reader struct{ bytes.Reader }

func (r *reader) ReadFull(p []byte) error {
	_, err := io.ReadFull(&r.Reader, p)
	return err
}

// wrote returns a side's output for two Writes of payload and a Send, and the bytes from Stop. The
// first limit bytes are sent step bytes at a time. With sourced the payload comes from one Source,
// and its memory in the SGL is empty.
func wrote(t *testing.T, m Modes, mss int, payload []byte, sourced bool, step, limit int) (sent, rest []byte) {
	t.Helper()
	s := newSide(t, rnic.DeviceConfig{}, 8)
	s.end.mss = mss
	s.end.start(m, 1, 1, false)
	s.end.room = 0
	cut := len(payload)/2 + 3
	a := rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{payload[:5], payload[5:cut]}, RemoteSTag: 7, RemoteTO: 100, Unsignaled: true}
	b := rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{payload[cut:]}, RemoteSTag: 8, Unsignaled: true}
	if sourced {
		src := new(reader)
		src.Reset(payload)
		blank := make([]byte, len(payload))
		a.SGL, b.SGL = [][]byte{blank[:5], blank[5:cut]}, [][]byte{blank[cut:]}
		a.Source, b.Source = src, src
	}
	c := rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("done")}}
	var list []rnic.Posted
	for _, wr := range []rnic.SendWR{a, b, c} {
		n := 0
		for _, p := range wr.SGL {
			n += len(p)
		}
		list = append(list, rnic.Posted{SendWR: wr, Bytes: uint32(n)})
	}
	if err := s.end.PostSend(list); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	for len(s.end.sent) < limit {
		before := len(s.end.sent)
		s.end.grant(min(step, limit-before))
		if len(s.end.sent) == before {
			break
		}
	}
	return s.end.sent, s.end.out.Stop()
}

func TestSourceMakesTheSameStream(t *testing.T) {
	payload := noise(900_003)
	for _, m := range []Modes{{}, {CRC: true}, {CRC: true, WholeTrailer: true}} {
		const mss = 9000
		whole, _ := wrote(t, m, mss, payload, false, 1<<21, 1<<21)
		if len(whole) < len(payload) {
			t.Fatalf("%d bytes of stream", len(whole))
		}
		for _, step := range []int{1 << 21, 8999, 777} {
			if got, _ := wrote(t, m, mss, payload, true, step, 1<<21); !bytes.Equal(got, whole) {
				t.Errorf("%+v: in steps of %d bytes: %d bytes that are not the same", m, step, len(got))
			}
		}
		for _, limit := range []int{1, 17, 20, 30, 9001, 50_000, 50_100, len(whole) - 30} {
			want, wantRest := wrote(t, m, mss, payload, false, 1000, limit)
			got, rest := wrote(t, m, mss, payload, true, 1000, limit)
			if !bytes.Equal(got, want) || !bytes.Equal(rest, wantRest) {
				t.Errorf("%+v: ended after %d bytes: the rest of the FPDU is %d bytes, want %d, or others", m, limit, len(rest), len(wantRest))
			}
		}
	}
}

// TestSegmentsThatGrowInAMessage: a Source is read to the end of the message as segments grow. Some
// of its bytes have been read ahead, for later segments.
func TestSegmentsThatGrowInAMessage(t *testing.T) {
	const message = 600_000
	payload := noise(2 * message)
	s := newSide(t, rnic.DeviceConfig{}, 8)
	s.end.mss = 9000
	s.end.start(Modes{}, 1, 1, false)
	s.end.room = 0
	src := new(reader)
	src.Reset(payload)
	var ranges [][]byte // short, so that a batch runs out of ranges before it has all bytes read for it
	for range message / 300 {
		ranges = append(ranges, make([]byte, 300))
	}
	var list []rnic.Posted
	for range 2 {
		list = append(list, rnic.Posted{SendWR: rnic.SendWR{Op: rnic.OpWrite, SGL: ranges, Source: src}, Bytes: message})
	}
	if err := s.end.PostSend(list); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	s.end.grant(300_000)
	s.end.mss, s.end.out.untilMSS = 65483, 0
	s.end.grant(2 * message)
	var got []byte
	var longest int
	for b := s.end.sent; len(b) > 0; {
		ulpdu, n, err := mpa.ParseFPDU(b, false)
		if err != nil || n == 0 {
			t.Fatalf("%d bytes left: %v", len(b), err)
		}
		got, b = append(got, ulpdu[ddp.TaggedLen:]...), b[n:]
		longest = max(longest, len(ulpdu)-ddp.TaggedLen)
	}
	if !bytes.Equal(got, payload) {
		t.Errorf("%d bytes have arrived, or others", len(got))
	}
	if longest < 9000 {
		t.Errorf("the longest segment has %d bytes", longest)
	}
}

// TestSourceWithTooLittle: missing bytes are not replaced. The stream ends before any FPDU that
// would have some of them.
func TestSourceWithTooLittle(t *testing.T) {
	s := newSide(t, rnic.DeviceConfig{}, 8)
	s.end.mss, s.end.room = 9000, 1<<20
	s.end.start(Modes{CRC: true}, 1, 1, false)
	src := new(reader)
	src.Reset(noise(20_000))
	err := s.end.PostSend([]rnic.Posted{{SendWR: rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{make([]byte, 50_000)}, Source: src}, Bytes: 50_000}})
	if err != nil || !s.end.ended {
		t.Errorf("PostSend: %v, ended: %v", err, s.end.ended)
	}
	if n := len(s.end.sent); n > 18_100 {
		t.Errorf("%d bytes were sent, want at most 18100", n)
	}
}

// TestSourceNeedsAnEndpointThatTakesIt: other endpoints refuse posts with a Source, and all refuse
// operations other than a Write.
func TestSourceNeedsAnEndpointThatTakesIt(t *testing.T) {
	a, _ := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 4)
	if a.qp.TakesSources() {
		t.Error("the endpoint takes Sources")
	}
	for _, op := range []rnic.Opcode{rnic.OpWrite, rnic.OpSend} {
		if err := a.qp.PostSend(rnic.SendWR{Op: op, SGL: [][]byte{{1}}, Source: new(reader)}); err == nil {
			t.Error("a work request with a Source is taken")
		}
	}
	for _, m := range []Modes{{CRC: true}, {SendMarkers: true}, {}} {
		for _, mss := range []int{1448, sourcedSegment, 8948, 65483} {
			if got, want := m.TakesSources(mss), !m.SendMarkers && mss > sourcedSegment; got != want {
				t.Errorf("%+v, segments of %d bytes: Sources are taken: %v, want %v", m, mss, got, want)
			}
		}
	}
}
