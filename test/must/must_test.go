// An unmet condition ends a test, with the right message.

package must

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// A failing is a testing.TB that keeps the message which ended it.
type failing struct {
	testing.TB
	with string
}

type ended struct{}

func (f *failing) Helper()                           {}
func (f *failing) Fatal(args ...any)                 { f.with = fmt.Sprint(args...); panic(ended{}) }
func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// end runs a condition and returns the message that ends the test; "": it goes on.
func end(condition func(testing.TB)) (with string) {
	f := &failing{}
	defer func() {
		if r := recover(); r != nil && r != (ended{}) {
			panic(r)
		}
		with = f.with
	}()
	condition(f)
	return ""
}

func TestConditions(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, c := range []struct {
		name, want string
		condition  func(testing.TB)
	}{
		{"no error", "", func(t testing.TB) { Succeed(t, nil, nil) }},
		{"the first error", "first", func(t testing.TB) { Succeed(t, nil, first, second) }},
		{"equal", "", func(t testing.TB) { Equal(t, "number", 1, 1) }},
		{"not equal", "number: got 1, want 2", func(t testing.TB) { Equal(t, "number", 1, 2) }},
		{"bytes", "", func(t testing.TB) { Hex(t, " 00 fF\n\t01") }},
		{"half a byte", "encoding/hex: odd length hex string", func(t testing.TB) { Hex(t, "0 0 f") }},
		{"a condition at once", "", func(t testing.TB) { Become(t, "true", func() bool { return true }) }},
	} {
		if got := end(c.condition); got != c.want {
			t.Errorf("%s: ends with %q, want %q", c.name, got, c.want)
		}
	}
	if got, want := Hex(t, "00 fF\n01"), []byte{0, 255, 1}; !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
}

// TestBecomeWaits: Become waits for a late condition, but not forever.
func TestBecomeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		if got := end(func(t testing.TB) { Become(t, "third", func() bool { tries++; return tries == 3 }) }); got != "" {
			t.Errorf("ends with %q, want that it goes on", got)
		}
		if got, want := end(func(t testing.TB) { Become(t, "never", func() bool { return false }) }), "not in 5m0s: never"; got != want {
			t.Errorf("ends with %q, want %q", got, want)
		}
	})
}
