// A record file while it is changed.

package nlm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A crash while a record is changed loses no earlier content, as long as there are locks. Additions
// after incomplete ones count.
func TestRecordIsOnlyAddedTo(t *testing.T) {
	simulateCrashes(t, func(r *teller) {
		path := filepath.Join(r.dir, "server-server")
		content := func() []byte {
			r.b.Helper()
			b, err := os.ReadFile(path)
			must.Succeed(r.b, err)
			return b
		}
		first := r.mountIn("one", "1", "server")
		r.take(first, 0)
		before := content()
		second := r.mountIn("two", "1", "server")
		r.take(second, 1)
		after := content()
		second.crash()
		first.crash()
		if len(after) <= len(before) {
			r.b.Fatalf("%q, then %q", before, after)
		}
		for n := len(before); n <= len(after); n++ {
			must.Succeed(r.b, os.WriteFile(path, after[:n], 0o600))
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			must.Succeed(r.b, err)
			got, err := readRecord(file)
			must.Succeed(r.b, err)
			must.Equal(r.b, fmt.Sprintf("boot in %q", after[:n]), got.Boot, "1")
			must.Equal(r.b, fmt.Sprintf("name in %q", after[:n]), got.Name, "host")
			must.Equal(r.b, fmt.Sprintf("net one is in %q", after[:n]), slices.Contains(got.Nets, "one"), true)
			if err := addToRecord(file, &record{Nets: []string{"three"}}); err != nil {
				r.b.Errorf("add a line: %v", err)
			}
			got, err = readRecord(file)
			must.Succeed(r.b, err)
			for _, net := range []string{"one", "three"} {
				must.Equal(r.b, fmt.Sprintf("net %s is in %q with one more", net, after[:n]), slices.Contains(got.Nets, net), true)
			}
			file.Close()
		}
		// a file system may report a size beyond the data on disk, where zeros are read
		must.Succeed(r.b, os.WriteFile(path, append(slices.Clone(before), make([]byte, len(after)-len(before))...), 0o600))
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		must.Succeed(r.b, err)
		defer file.Close()
		for _, net := range []string{"one", "three"} {
			got, err := readRecord(file)
			must.Succeed(r.b, err)
			must.Equal(r.b, "boot, with zeros", got.Boot, "1")
			must.Equal(r.b, "net "+net+" is there, with zeros", slices.Contains(got.Nets, net), true)
			if err := addToRecord(file, &record{Nets: []string{"three"}}); err != nil {
				r.b.Errorf("add a line: %v", err)
			}
		}
	})
}
