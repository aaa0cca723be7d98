// Opens of a file that the kernel is about to forget.

package fusefs_test

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// Another client renames an empty file and extends it. While a program opens the new name, the
// kernel drops its cached inodes. The program's mapping still covers the server's size.
func TestForgottenFileHasItsSize(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	const size = 11889
	sink, err := os.Create(filepath.Join(t.TempDir(), "sink"))
	must.Succeed(t, err)
	defer sink.Close()
	for round := range 50 {
		must.Succeed(t, os.WriteFile(m.at("b"), nil, 0o600))
		must.Succeed(t, os.Rename(m.there("b"), m.there("a")))
		must.Succeed(t, os.Truncate(m.there("a"), size))
		var forget sync.WaitGroup
		forget.Go(func() { _ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0) })
		f, err := os.OpenFile(m.at("a"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		must.Succeed(t, err)
		data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
		must.Succeed(t, err)
		if _, err := sink.Write(data); err != nil { // write(2) returns a fault as an error
			t.Errorf("round %d: got %v, want the mapping's bytes", round, err)
		}
		forget.Wait()
		must.Succeed(t, syscall.Munmap(data))
		must.Succeed(t, f.Close())
		must.Succeed(t, os.Remove(m.at("a")))
	}
}
