// The codecs: golden bytes, truncations, limits, round trips, fuzz targets.

package rconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

var (
	aHello     = hello{ring: 1 << 20, stag: 0x11223344, base: 0x0102030405060708, receives: 256}
	helloBytes = "52434f4e 01 000000 00100000 11223344 0102030405060708 00000100"
)

func TestHelloBytes(t *testing.T) {
	want := must.Hex(t, helloBytes)
	if got := appendHello(nil, aHello); !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	for _, zeros := range []int{0, 28} { // RoCE's private data has a fixed length
		got, err := parseHello(append(bytes.Clone(want), make([]byte, zeros)...))
		if err != nil || got != aHello {
			t.Errorf("%d zeros after it: got %+v, %v, want %+v", zeros, got, err, aHello)
		}
	}
	for n := range want {
		if _, err := parseHello(want[:n]); !errors.Is(err, errMagic) {
			t.Errorf("%d bytes: got %v, want %v", n, err, errMagic)
		}
	}
}

func TestHelloLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b []byte)
		want   error
	}{
		{"magic", func(b []byte) { b[0]++ }, errMagic},
		{"version", func(b []byte) { b[4]++ }, errVersion},
		{"reserved", func(b []byte) { b[7] = 1 }, errHello},
		{"no ring", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0) }, errHello},
		{"small ring", func(b []byte) { binary.BigEndian.PutUint32(b[8:], minRing/2) }, errHello},
		{"smallest ring", func(b []byte) { binary.BigEndian.PutUint32(b[8:], minRing) }, nil},
		{"largest ring", func(b []byte) { binary.BigEndian.PutUint32(b[8:], maxRing) }, nil},
		{"large ring", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 2*maxRing) }, errHello},
		{"ring not a power of two", func(b []byte) { b[11] = 1 }, errHello},
		{"offsets wrap", func(b []byte) { binary.BigEndian.PutUint64(b[16:], ^uint64(0)-100) }, errHello},
		{"few receives", func(b []byte) { binary.BigEndian.PutUint32(b[24:], minReceives-1) }, errHello},
		{"many receives", func(b []byte) { binary.BigEndian.PutUint32(b[24:], maxReceives+1) }, errHello},
	} {
		b := must.Hex(t, helloBytes)
		c.change(b)
		if _, err := parseHello(b); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

var goldenMessages = []struct {
	bytes string
	m     message
}{
	{"01 000000 00000005 00000007 00000009", message{kind: kindData, bytes: 5, read: 7, received: 9}},
	{"02 000000 00000000 fffffffe 00000001", message{kind: kindUpdate, read: 0xfffffffe, received: 1}},
	{"03 000000 00000000 00000000 00000000", message{kind: kindEnd}},
}

func TestMessageBytes(t *testing.T) {
	for _, g := range goldenMessages {
		want := must.Hex(t, g.bytes)
		var b [messageLen]byte
		g.m.put(&b)
		if !bytes.Equal(b[:], want) {
			t.Errorf("%+v: got % x, want % x", g.m, b, want)
		}
		got, err := parseMessage(want)
		if err != nil || got != g.m {
			t.Errorf("% x: got %+v, %v, want %+v", want, got, err, g.m)
		}
		for n := range want {
			if _, err := parseMessage(want[:n]); !errors.Is(err, errMessage) {
				t.Errorf("%d bytes: got %v, want %v", n, err, errMessage)
			}
		}
	}
}

func TestInvalidMessages(t *testing.T) {
	for _, text := range []string{
		"00 000000 00000000 00000000 00000000", "04 000000 00000000 00000000 00000000", // kinds
		"01 000100 00000005 00000000 00000000",                                         // reserved
		"01 000000 00000000 00000000 00000000",                                         // data without bytes
		"02 000000 00000001 00000000 00000000", "03 000000 00000001 00000000 00000000", // bytes without data
		"02 000000 00000000 00000000 00000000 00", // longer
	} {
		if m, err := parseMessage(must.Hex(t, text)); !errors.Is(err, errMessage) {
			t.Errorf("%s: got %+v, %v, want %v", text, m, err, errMessage)
		}
	}
	for v, want := range map[uint64]error{0: errMessage, 1: nil, maxRing: nil, maxRing + 1: errMessage, 1 << 32: errMessage} {
		if m, err := parseImmediate(v); !errors.Is(err, want) {
			t.Errorf("immediate data %#x: got %+v, %v, want %v", v, m, err, want)
		}
	}
}

// FuzzHello: an accepted hello has a usable ring, and encodes to the same bytes.
func FuzzHello(f *testing.F) {
	f.Add(appendHello(nil, aHello))
	f.Add(appendHello(nil, hello{ring: maxRing, base: 1 << 63, receives: minReceives}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		if h.ring < minRing || h.ring > maxRing || h.base+uint64(h.ring) < h.base || h.receives < minReceives {
			t.Errorf("accepted: %+v", h)
		}
		if again := appendHello(nil, h); !bytes.Equal(again, b[:helloLen]) {
			t.Errorf("got % x, want % x", again, b[:helloLen])
		}
	})
}

// FuzzMessage: an accepted message encodes to the same bytes.
func FuzzMessage(f *testing.F) {
	for _, g := range goldenMessages {
		var b [messageLen]byte
		g.m.put(&b)
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err != nil {
			return
		}
		var again [messageLen]byte
		if m.put(&again); !bytes.Equal(again[:], b) {
			t.Errorf("%+v: got % x, want % x", m, again, b)
		}
	})
}

// FuzzFlow: any sequence of messages leaves the bytes to read inside of the ring, and the peer's
// announcements within what was sent.
func FuzzFlow(f *testing.F) {
	var all []byte
	for _, g := range goldenMessages {
		var b [messageLen]byte
		g.m.put(&b)
		all = append(all, b[:]...)
	}
	f.Add(uint16(100), all)
	f.Fuzz(func(t *testing.T, n uint16, b []byte) {
		s := newFlow(minRing, minReceives, hello{ring: minRing, receives: minReceives})
		for len(b) >= messageLen {
			m, err := parseMessage(b[:messageLen])
			b = b[messageLen:]
			if err != nil || s.receive(m) != nil {
				return
			}
			s.posted(1)
			offset, k := s.unread()
			if offset+k > minRing || s.arrived-s.read > minRing || s.written-s.freed > minRing || s.sent-s.returned > minReceives {
				t.Fatalf("after %+v: %+v", m, s)
			}
			s.take(min(k, int(n)))
			if _, k := s.room(int(n)); k > 0 {
				s.sendData(k, false)
			}
			for s.due() {
				s.sendUpdate()
			}
		}
	})
}
