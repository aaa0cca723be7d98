// Lengths of arrays: checked against the limit and against the unread bytes.

package xdr

import (
	"errors"
	"testing"
)

func TestLength(t *testing.T) {
	for _, c := range []struct {
		b           []byte
		limit, size int
		want        int
		err         error
	}{
		{[]byte{0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8}, 2, 4, 2, nil},
		{[]byte{0, 0, 0, 0}, 0, 4, 0, nil},
		{[]byte{0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8}, 1, 4, 0, ErrLimit},
		{[]byte{0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8}, 2, 5, 0, ErrShort},
		{[]byte{255, 255, 255, 255, 1, 2, 3, 4}, 1<<31 - 1, 4, 0, ErrLimit},
		{[]byte{127, 255, 255, 255, 1, 2, 3, 4}, 1<<31 - 1, 1, 0, ErrShort},
		{[]byte{0, 0, 0}, 5, 4, 0, ErrShort},
	} {
		d := NewDecoder(c.b)
		if got := d.Length(c.limit, c.size); got != c.want || !errors.Is(d.Err(), c.err) {
			t.Errorf("Length(%d, %d) of %x: got %d, %v, want %d, %v", c.limit, c.size, c.b, got, d.Err(), c.want, c.err)
		}
	}
}

func TestResize(t *testing.T) {
	s := make([]int, 2, 8)
	if got := Resize(s, 5); len(got) != 5 || &got[0] != &s[0] {
		t.Errorf("within the capacity: got %d elements, or new memory", len(got))
	}
	if got := Resize(s, 9); len(got) != 9 {
		t.Errorf("beyond the capacity: got %d elements, want 9", len(got))
	}
	if got := Resize[int](nil, 0); got != nil {
		t.Errorf("no elements: got %v, want nil", got)
	}
}

func TestVoid(t *testing.T) {
	var e Encoder
	(&Void{}).EncodeXDR(&e)
	d := NewDecoder([]byte{1})
	if (&Void{}).DecodeXDR(d); e.Len() != 0 || d.Remaining() != 1 {
		t.Errorf("void: got %d bytes written and %d left, want 0 and 1", e.Len(), d.Remaining())
	}
}
