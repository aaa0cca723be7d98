// Local special cases: paths without a directory, and files without size or positions.

package treecopy

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLocalPathsThatAreNone: an empty path does not exist, and a name without a directory is in the
// current one.
func TestLocalPathsThatAreNone(t *testing.T) {
	if _, _, err := (Local{}).Parent(t.Context(), "", ""); !errors.Is(err, unix.ENOENT) {
		t.Errorf("an empty path: %v", err)
	}
	d, base, err := (Local{}).Parent(t.Context(), "name", "name")
	if err != nil || base != "name" || d.Text(base) != "name" {
		t.Fatalf("a bare name: %q, %v", base, err)
	}
	defer d.Close()
	here, err := (Local{}).Stat(t.Context(), ".", true)
	if err != nil || !same(&here, d.Self()) {
		t.Errorf("it is in %+v, %v", d.Self(), err)
	}
}

// TestLocalFilesThatAreStreams: files without size or positions are read sequentially.
func TestLocalFilesThatAreStreams(t *testing.T) {
	for path, want := range map[string]string{"/proc/sys/kernel/ostype": "Linux\n", "/dev/null": ""} {
		d, base, err := (Local{}).Parent(t.Context(), path, path)
		if err != nil {
			t.Fatalf("Parent: %v", err)
		}
		m, err := d.Lstat(t.Context(), base)
		if err != nil {
			t.Fatalf("Lstat: %v", err)
		}
		m.Name = base
		s, err := d.Open(t.Context(), m)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		b, err := io.ReadAll(s)
		if !s.Stream() || string(b) != want || err != nil {
			t.Errorf("%s: stream %v, %q, %v", path, s.Stream(), b, err)
		}
		s.Close()
		d.Close()
	}
	d, base, err := (Local{}).Parent(t.Context(), "/dev/full", "")
	if err != nil {
		t.Fatalf("Parent: %v", err)
	}
	defer d.Close()
	m, _ := d.Lstat(t.Context(), base)
	m.Name = base
	s, err := d.Overwrite(t.Context(), m)
	if err != nil {
		t.Fatalf("Overwrite: %v", err)
	}
	defer s.Close()
	if _, err := s.WriteAt(bytes.Repeat([]byte("x"), 10), 100); !s.Stream() || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a device: stream %v, %v", s.Stream(), err)
	}
	if err := s.Sync(); err != nil {
		t.Errorf("Sync of a device: %v", err)
	}
}
