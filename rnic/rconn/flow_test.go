// A model of two ends under random schedules: no overrun, no lost or changed byte, no deadlock.

package rconn

import (
	"testing"

	"pgregory.net/rapid"
)

// A side is one end in the model: its flow, its memory, and the messages on their way to it.
type side struct {
	flow  flow
	ring  []byte
	bare  bool // announces data by Immediate Data
	queue []inFlight
	held  int // receives of messages that were taken and are not posted again

	toSend, sent int // bytes of this side's stream
	got          int // bytes of the other's stream
}

// An inFlight is a message on its way, with its data.
type inFlight struct {
	m      message
	offset int
	data   []byte
}

// content returns the byte at a position of a stream.
func content(at int) byte { return byte(at*131 + at>>8) }

// A world is both ends, and the source of the test's choices.
type world struct {
	t *rapid.T
	s [2]*side
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t}
	rings := [2]uint32{minRing, minRing}
	receives := [2]uint32{}
	for i := range 2 {
		rings[i] <<= rapid.IntRange(0, 2).Draw(t, "ring")
		receives[i] = uint32(rapid.IntRange(minReceives, 20).Draw(t, "receives"))
	}
	start := rapid.Uint32().Draw(t, "start") // positions and counts wrap
	for i := range 2 {
		f := newFlow(rings[i], receives[i], hello{ring: rings[1-i], receives: receives[1-i]})
		start := start &^ (4*minRing - 1)
		for _, p := range []*uint32{&f.written, &f.freed, &f.arrived, &f.read, &f.announced, &f.sent, &f.returned, &f.received, &f.acknowledged} {
			*p = start
		}
		w.s[i] = &side{flow: f, ring: make([]byte, rings[i]), bare: rapid.Bool().Draw(t, "bare"),
			toSend: rapid.IntRange(0, 100_000).Draw(t, "bytes")}
	}
	return w
}

// post puts a message on its way to side to.
func (w *world) post(to int, m message, offset int, data []byte) {
	s := w.s[to]
	s.queue = append(s.queue, inFlight{m, offset, data})
	if n := len(s.queue) + s.held; n > int(s.flow.receives) {
		w.t.Fatalf("%d messages for %d receives", n, s.flow.receives)
	}
}

// write makes side i write at most n bytes, or its end. It reports whether anything was sent.
func (w *world) write(i, n int) bool {
	s := w.s[i]
	offset, k := s.flow.room(min(n, s.toSend-s.sent))
	if k > 0 {
		data := make([]byte, k)
		for j := range data {
			data[j] = content(s.sent + j)
		}
		s.sent += k
		w.post(1-i, s.flow.sendData(k, s.bare), offset, data)
		return true
	}
	if s.sent == s.toSend && !s.flow.endSent {
		w.post(1-i, s.flow.sendEnd(), 0, nil)
		return true
	}
	return false
}

// deliver makes side i take at most n messages, and then post all their receives again.
func (w *world) deliver(i, n int) bool {
	s := w.s[i]
	n = min(n, len(s.queue))
	for _, f := range s.queue[:n] {
		copy(s.ring[f.offset:], f.data)
		m := f.m
		if m.bare {
			m.read, m.received = 0, 0
		}
		if err := s.flow.receive(m); err != nil {
			w.t.Fatalf("%+v: %v", m, err)
		}
		s.held++
	}
	s.queue = s.queue[n:]
	s.flow.posted(s.held)
	s.held = 0
	return n > 0
}

// read makes side i read at most n bytes.
func (w *world) read(i, n int) bool {
	s := w.s[i]
	offset, k := s.flow.unread()
	k = min(k, n)
	for _, b := range s.ring[offset:][:k] {
		if want := content(s.got); b != want {
			w.t.Fatalf("byte %d: got %#x, want %#x", s.got, b, want)
		}
		s.got++
	}
	s.flow.take(k)
	return k > 0
}

// update makes side i send its updates.
func (w *world) update(i int) bool {
	any := false
	for w.s[i].flow.due() {
		w.post(1-i, w.s[i].flow.sendUpdate(), 0, nil)
		any = true
	}
	return any
}

// TestFlowModel: after any schedule, all bytes and both ends are delivered if both sides continue
// to act.
func TestFlowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "side")
			n := rapid.SampledFrom([]int{1, 2, 3, 50, 1000, 5000, 20_000}).Draw(t, "n")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				w.write(i, n)
			case 1:
				w.deliver(i, n)
			case 2:
				w.read(i, n)
			case 3:
				w.update(i)
			}
		}
		n := rapid.SampledFrom([]int{100, 3000, 1 << 20}).Draw(t, "at last")
		for moves := true; moves; {
			moves = false
			for i := range 2 {
				// All methods are called, because any of them can do what the others wait for.
				for _, moved := range []bool{w.write(i, n), w.deliver(i, 1<<20), w.update(i), w.read(i, 1<<20), w.update(i)} {
					moves = moves || moved
				}
			}
		}
		for i, s := range w.s {
			if s.got != w.s[1-i].toSend || !s.flow.endCame {
				t.Fatalf("side %d: got %d bytes, want %d; the end came: %v\n%+v\n%+v", i, s.got, w.s[1-i].toSend, s.flow.endCame, s.flow, w.s[1-i].flow)
			}
		}
	})
}

// TestFlowWaits: a full ring, and used receives, stop a writer; half a ring read, and half of the
// receives, make an update due.
func TestFlowWaits(t *testing.T) {
	s := newFlow(minRing, minReceives, hello{ring: minRing, receives: minReceives})
	if _, k := s.room(1 << 20); k != minRing {
		t.Fatalf("room for %d bytes, want %d", k, minRing)
	}
	sends := 0
	for ; ; sends++ {
		if _, k := s.room(1); k == 0 {
			break
		}
		s.sendData(1, false)
	}
	if want := minReceives - 3; sends != want {
		t.Errorf("%d messages of data without an answer, want %d", sends, want)
	}
	if err := s.receive(message{kind: kindData, bytes: minRing}); err != nil {
		t.Fatal(err)
	}
	if err := s.receive(message{kind: kindData, bytes: 1}); err != errOverrun {
		t.Errorf("a byte more than the ring: got %v, want %v", err, errOverrun)
	}
	s.take(minRing/2 - 1)
	if s.due() {
		t.Error("an update is due before half of the ring is free")
	}
	if s.take(1); !s.due() {
		t.Error("half of the ring is free, and no update is due")
	}
	s.sendUpdate()
	s.posted(minReceives / 2)
	if !s.due() {
		t.Error("half of the receives are posted again, and no update is due")
	}
}
