// Opens of a file that the kernel forgets at the same time.

package fusefs_test

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestForgottenFileHasItsSize: another client gives a file a new name and makes it longer, and the
// kernel forgets it while a program opens it by the new name. A mapping has the server's size.
func TestForgottenFileHasItsSize(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	const size = 11889
	sink, err := os.Create(filepath.Join(t.TempDir(), "sink"))
	must(t, err)
	defer sink.Close()
	for round := range 50 {
		must(t, os.WriteFile(m.at("b"), nil, 0o600))
		must(t, os.Rename(m.there("b"), m.there("a")))
		must(t, os.Truncate(m.there("a"), size))
		var forget sync.WaitGroup
		forget.Go(func() { _ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0) })
		f, err := os.OpenFile(m.at("a"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		must(t, err)
		data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
		must(t, err)
		if _, err := sink.Write(data); err != nil { // write(2) reports a fault as an error
			t.Errorf("round %d: got %v, want the mapping's bytes", round, err)
		}
		forget.Wait()
		must(t, syscall.Munmap(data))
		must(t, f.Close())
		must(t, os.Remove(m.at("a")))
	}
}
