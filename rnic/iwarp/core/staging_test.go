// The staging buffer of a batch: bytes read ahead are neither lost nor sent twice.

package core

import (
	"bytes"
	"testing"
)

// counted is a Source that counts its calls.
type counted struct {
	reader
	calls int
}

func (c *counted) ReadFull(p []byte) error {
	c.calls++
	return c.reader.ReadFull(p)
}

// TestStagingKeepsBytesReadAhead: if a batch is full before it has taken all bytes read ahead, the
// next one continues with the rest. Nothing beyond the message is read, because it may belong to
// another message.
func TestStagingKeepsBytesReadAhead(t *testing.T) {
	payload := noise(1_000_000)
	src := new(counted)
	src.Reset(payload)
	var r stagingBuffer
	const n, message = 60_000, 500_000
	var got []byte
	var inBatch int
	for len(got) < len(payload) {
		left := message - len(got)%message
		p, err := r.read(src, min(n, left), left, 5*n)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		got = append(got, p...)
		if inBatch++; inBatch == 3 { // of 5
			inBatch = 0
			r.clear()
		}
		if rest := src.Len(); rest < len(payload)-len(got)-left {
			t.Fatalf("bytes of another message have been read")
		}
	}
	if !bytes.Equal(got, payload) {
		t.Error("other bytes")
	}
	if src.calls > 10 {
		t.Errorf("the Source was asked %d times", src.calls)
	}
	r.clear()
	if r.mem != nil {
		t.Error("memory is held that holds nothing")
	}
}

// TestStagingIsReleasedAtTheEnd: drop releases the buffer, even with bytes read ahead.
func TestStagingIsReleasedAtTheEnd(t *testing.T) {
	src := new(reader)
	src.Reset(noise(100_000))
	var r stagingBuffer
	if _, err := r.read(src, 10_000, 100_000, 100_000); err != nil {
		t.Fatalf("read: %v", err)
	}
	r.clear()
	if r.mem == nil || r.ahead != 90_000 {
		t.Fatalf("%d bytes were read ahead", r.ahead)
	}
	r.drop()
	if r.mem != nil || r.ahead != 0 {
		t.Error("memory is held after the end")
	}
}

// TestStagingReadsSomeFPDUsAtOnce: a batch of five FPDUs calls the Source twice.
func TestStagingReadsSomeFPDUsAtOnce(t *testing.T) {
	src := new(counted)
	src.Reset(noise(1 << 20))
	var b batch
	b.init(nil)
	for left := 1 << 20; left > 0; {
		b.reset()
		for !b.full() && left > 0 {
			n := min(60_000, left)
			p, err := b.read(src, n, left)
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			b.addRange(p)
			left -= n
		}
		b.advance(b.left)
	}
	if src.calls != 7 {
		t.Errorf("asked %d times, want 7", src.calls)
	}
	if p, err := b.read(src, 0, 0); len(p) != 0 || err != nil {
		t.Errorf("an empty Write: %d bytes, %v", len(p), err)
	}
	if src.calls != 7 {
		t.Errorf("an empty Write calls the Source: %d calls, want 7", src.calls)
	}
}
