// A command's errors: one line each, in the system's words, counted.

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestReporterCountsAndKeepsLines(t *testing.T) {
	var out strings.Builder
	r := NewReporter(&out, "cp", nil)
	r.Warn("w")
	if r.Err() != nil {
		t.Error("a warning counts as an error")
	}
	r.Report(errors.New("cannot stat 'a\nb\x1b'"))
	if want := "nfsrdma: cp: w\nnfsrdma: cp: cannot stat 'a?b?'\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if r.Failed() != 1 || !errors.Is(r.Err(), ErrReported) {
		t.Errorf("%d failures, %v", r.Failed(), r.Err())
	}
}

func TestReasonIsTheSystemsSentence(t *testing.T) {
	err := fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "p", Err: syscall.ENOENT})
	if got := Reason(err); got != "No such file or directory" {
		t.Errorf("%q", got)
	}
	if got := Reason(errors.New("other")); got != "other" {
		t.Errorf("%q", got)
	}
}

func TestUmaskIsRead(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	if got := Umask(); got != 0o027 {
		t.Errorf("%#o", got)
	}
}
