// Removing one of several names of an open file.

package fusefs_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A removal hides an open file only under its last name. This name may be the last because another
// client has removed the other.
func TestOneOfTwoNamesIsRemoved(t *testing.T) {
	for _, c := range []struct {
		elsewhere bool // another client removes the other name first
		hidden    uint64
	}{{false, 0}, {true, 1}} {
		m := mount(t, options{AcMin: long, AcMax: long})
		must.Succeed(t, os.WriteFile(m.at("one"), []byte("data"), 0o600))
		must.Succeed(t, os.Link(m.at("one"), m.at("two")))
		f, err := os.Open(m.at("one"))
		must.Succeed(t, err)
		if st, err := f.Stat(); err != nil || st.Sys().(*syscall.Stat_t).Nlink != 2 {
			t.Fatalf("%+v, %v; want 2 links", st, err)
		}
		if c.elsewhere {
			must.Succeed(t, os.Remove(m.there("two")))
		}
		must.Succeed(t, os.Remove(m.at("one")))
		hidden, err := filepath.Glob(m.there(".nfs*"))
		must.Succeed(t, err)
		if got := m.stats().SillyRenames; got != c.hidden || uint64(len(hidden)) != c.hidden {
			t.Errorf("removed elsewhere %v: %d names were hidden, now %q; want %d", c.elsewhere, got, hidden, c.hidden)
		}
		buf := make([]byte, 8)
		if n, err := f.ReadAt(buf, 0); string(buf[:n]) != "data" {
			t.Errorf("removed elsewhere %v: read %q, %v", c.elsewhere, buf[:n], err)
		}
		must.Succeed(t, f.Close())
	}
}
