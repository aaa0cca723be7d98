// A server without a maxfilesize.

package fusefs

import (
	"math"
	"testing"
)

func TestNoLimitWithoutMaxfilesize(t *testing.T) {
	f := new(fileSystem)
	if got := f.largest(new(node)); got != math.MaxInt64 {
		t.Errorf("files of %d bytes at most, want %d", got, int64(math.MaxInt64))
	}
	f.sizeMost = math.MaxUint64 // as FAT and others report; above the kernel's maximum
	if got := f.largest(new(node)); got != math.MaxInt64 {
		t.Errorf("files of %d bytes at most, want %d", got, int64(math.MaxInt64))
	}
}
