// Tests of the parts: pattern, histogram, sizes, modes.

package main

import (
	"io/fs"
	"testing"
	"time"
)

func TestPatternFindsEveryChange(t *testing.T) {
	p := newPattern(7)
	b := make([]byte, 4*patternBlock)
	p.fill(b, 8*patternBlock)
	if err := p.check(b, 8*patternBlock); err != nil {
		t.Fatal(err)
	}
	if p.sample(b, 9*patternBlock) == nil || p.check(b, 0) == nil {
		t.Error("data of another place passes")
	}
	for i := range b {
		b[i] ^= 1
		if p.check(b, 8*patternBlock) == nil {
			t.Fatalf("a change at %d passes", i)
		}
		b[i] ^= 1
	}
}

func TestHistogram(t *testing.T) {
	var a, b histogram
	for i := 1; i <= 1000; i++ {
		h := &a
		if i%3 == 0 {
			h = &b
		}
		h.add(time.Duration(i) * time.Microsecond)
	}
	a.merge(&b)
	if a.n != 1000 || a.lo != time.Microsecond || a.hi != time.Millisecond || a.mean() != 500500*time.Nanosecond {
		t.Errorf("n %d, from %v to %v, mean %v", a.n, a.lo, a.hi, a.mean())
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond} {
		if got := a.quantile(q); got < want*96/100 || got > want*104/100 {
			t.Errorf("quantile %v: %v, want about %v", q, got, want)
		}
	}
	for d := time.Duration(0); d < time.Hour; d = d*5/4 + 1 {
		if f := floor(bucket(d)); f > d || d-f > d/latencySteps+1 {
			t.Fatalf("%v is counted as %v", d, f)
		}
	}
}

func TestFormat(t *testing.T) {
	for m, want := range map[fs.FileMode]string{
		0o644: "-rw-r--r--", fs.ModeDir | fs.ModeSticky | 0o777: "drwxrwxrwt", fs.ModeSymlink | 0o777: "lrwxrwxrwx",
		fs.ModeSetuid | 0o655: "-rwSr-xr-x", fs.ModeDevice | fs.ModeCharDevice | 0o600: "crw-------",
	} {
		if got := modeString(m); got != want {
			t.Errorf("%v is written %s, want %s", m, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16.0 EiB"} {
		if got := size(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
	if got := printable("a\x1b[2Jb\n"); got != "a?[2Jb?" {
		t.Errorf("%q", got)
	}
}
