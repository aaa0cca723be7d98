// Programs with many small files cost few calls, and no necessary call is missing.

package fusefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// The names in a directory that we made are known until a foreign change is seen.
func TestNamesOfOwnDirectoryAreNotLookedUp(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, AllowOther: true})
	// Not all users may search this directory, so the kernel keeps no names of it.
	must.Succeed(t, os.Mkdir(m.at("d"), 0o700))
	calls := func() uint64 { return m.stats().Calls["LOOKUP"].Count + m.stats().Calls["ACCESS"].Count }
	before := calls()
	const files = 50
	for i := range files {
		must.Succeed(t, os.WriteFile(m.at(fmt.Sprint("d/", i)), nil, 0o600))
	}
	// if the machine stalls for a second between two files, some names are looked up
	if n := calls() - before; n > files/2 {
		t.Errorf("%d LOOKUPs and ACCESSes for %d new files", n, files)
	}
	for i := range files {
		if _, err := os.Lstat(m.at(fmt.Sprint("d/", i))); err != nil {
			t.Errorf("lstat: %v", err)
		}
	}
	must.Succeed(t, os.Remove(m.at("d/7")))
	_, err := os.Lstat(m.at("d/7"))
	want(t, err, syscall.ENOENT)
	must.Succeed(t, os.Rename(m.at("d/8"), m.at("d/7")))
	if _, err := os.Lstat(m.at("d/7")); err != nil {
		t.Errorf("lstat: %v", err)
	}
}

// A foreign name that is not known here appears soon, even while the directory's attributes are
// trusted for long.
func TestNewNameOfAnotherIsSeenSoon(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.Mkdir(m.at("d"), 0o755))
	must.Succeed(t, os.WriteFile(m.at("d/own"), nil, 0o644)) // so the right to search is known
	must.Succeed(t, os.WriteFile(m.there("d/result"), []byte("x"), 0o644))
	// During this time the directory counts as unchanged since its creation.
	time.Sleep(1100 * time.Millisecond)
	if b, err := os.ReadFile(m.at("d/result")); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

// stat(2) of each file in a directory does not cost one call each.
func TestCheckingAllFilesListsTheDirectory(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.Mkdir(m.there("d"), 0o755))
	const files = 1000
	for i := range files {
		must.Succeed(t, os.WriteFile(m.there(fmt.Sprintf("d/%04d", i)), make([]byte, i), 0o644))
	}
	for i := range files {
		fi, err := os.Lstat(m.at(fmt.Sprintf("d/%04d", i)))
		if err != nil || fi.Size() != int64(i) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	c := m.stats().Calls
	if n := c["LOOKUP"].Count + c["READDIRPLUS"].Count; n > files/4 {
		t.Errorf("%d LOOKUPs and %d READDIRPLUSes of %d names", c["LOOKUP"].Count, c["READDIRPLUS"].Count, files)
	}
	// Removed names and changed modes override the listing.
	must.Succeed(t, os.Chmod(m.at("d/0900"), 0o600))
	must.Succeed(t, os.Remove(m.at("d/0901")))
	must.Succeed(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
	if fi, err := os.Lstat(m.at("d/0900")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	_, err := os.Lstat(m.at("d/0901"))
	want(t, err, syscall.ENOENT)
}

// Data written before the times are set is stable when the times are set.
func TestTimesOfASmallFileSpareTheCommit(t *testing.T) {
	m := mount(t, options{})
	when := time.Unix(1_000_000_000, 0)
	for i := range 10 {
		f, err := os.Create(m.at(fmt.Sprint(i)))
		must.Succeed(t, err)
		_, err = f.Write([]byte("small"))
		must.Succeed(t, err)
		must.Succeed(t, syscall.Futimes(int(f.Fd()), []syscall.Timeval{syscall.NsecToTimeval(when.UnixNano()), syscall.NsecToTimeval(when.UnixNano())}))
		must.Succeed(t, f.Close())
		if b, err := os.ReadFile(filepath.Join(m.export, fmt.Sprint(i))); err != nil || string(b) != "small" {
			t.Errorf("%q, %v", b, err)
		}
	}
	// on a busy machine a file can take seconds, and is then written in the background
	if s := m.stats().Data; s.Writes != 10 || s.Commits > 3 {
		t.Errorf("%d WRITEs and %d COMMITs", s.Writes, s.Commits)
	}
}
