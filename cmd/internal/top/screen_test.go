// The screen: keys, drawing, and a server that stops answering.

package top

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestKeys(t *testing.T) {
	s := &screen{interval: 2 * time.Second, style: style{order: "calls"}}
	for key, want := range map[byte]action{'q': quit, 'Q': quit, 4: quit, ' ': now, '\n': now, '\r': now, 'x': nothing, 0: nothing, 0xff: nothing, 'c': nothing} {
		if got := s.key(key); got != want {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
	for key, want := range map[byte]Order{'c': "calls", 'b': "bytes", 't': "mean", 'p': "p99", 'u': "queue", 'e': "errors", 'n': "name"} {
		if s.key(key); s.order != want || !strings.Contains(helpText, string(key)+"  sort by") {
			t.Errorf("%q: by %s", key, s.order)
		}
	}
	for range 20 {
		s.key('-')
	}
	if s.interval != shortest || s.key('-') != nothing || s.key('+') != reschedule {
		t.Errorf("shortest: %v", s.interval)
	}
	for range 20 {
		s.key('+')
	}
	if s.interval != longest || s.key('+') != nothing {
		t.Errorf("longest: %v", s.interval)
	}
}

// lastLine returns the bottom of the screen.
func lastLine(drawn string) string { return drawn[strings.LastIndex(drawn, "\n")+1:] }

func TestDraw(t *testing.T) {
	s := &screen{interval: time.Second, server: "server", style: style{width: 80, height: 24, order: "bytes"}}
	first, second := snapshot(t, when.Add(-2*time.Second), firstText), snapshot(t, when, secondText)
	s.update(first, nil)
	if out := s.draw(); !strings.Contains(out, "the first report comes") {
		t.Errorf("%q", out)
	}
	s.update(second, nil)
	out := s.draw()
	if !strings.HasPrefix(out, topLeft) || !strings.HasSuffix(out, eraseLine+eraseScreen) || strings.Count(out, "\n") != 23 {
		t.Errorf("%q, want 24 lines between a move to the top left and an erased rest", out)
	}
	if !strings.Contains(out, "\nREAD ") || !strings.HasPrefix(lastLine(out), "every 1s, by bytes") {
		t.Errorf("%q, want READ, and \"every 1s, by bytes\" in the last line", out)
	}
	s.update(nil, errors.New("it is\x1b gone"))
	if out = s.draw(); !strings.HasPrefix(lastLine(out), "no answer: it is") || strings.Contains(strings.TrimPrefix(lastLine(out), eraseLine), "\x1b gone") || !strings.Contains(out, "\nREAD ") {
		t.Errorf("%q", out)
	}
	s.update(second, nil)
	if s.key('h'); !strings.Contains(s.draw(), "sort by calls") || strings.Contains(s.draw(), "\nREAD ") {
		t.Error("no help")
	}
	for _, height := range []int{1, 2, 5} {
		s.height = height
		if out := s.draw(); strings.Count(out, "\n") != height-1 {
			t.Errorf("%d lines: %q", height, out)
		}
	}
}

// TestSequences: arrows, function keys and the terminal's replies are no keys, but the bytes after
// these sequences are.
func TestSequences(t *testing.T) {
	for typed, want := range map[string]string{"abc": "abc", "\x1b[A": "", "\x1b[Aq": "q", "\x1bOPq": "q", "\x1b[1;5Cp\x1b[15~e": "pe", "\x1bq": "q", "\x1b\x1b[Bq": "q",
		"\x1b[<0;35;5M+": "+", "\x1b[": ""} {
		var e escape
		got := ""
		for _, b := range []byte(typed) {
			if e.key(b) {
				got += string(b)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
