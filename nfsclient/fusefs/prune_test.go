// The maximum number of objects that the mount leaves in the kernel's caches.

package fusefs_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A listing of many names does not stay in memory. Open files stay, and forgotten files are found
// again. This holds for a kernel that prunes objects, and for an older one that forgets names.
func TestNodesAreBounded(t *testing.T) {
	for _, how := range []string{"bound nodes", "bound names"} {
		t.Run(how, func(t *testing.T) {
			m := mount(t, options{AcMin: long, AcMax: long})
			must.Succeed(t, os.Mkdir(m.there("d"), 0o755))
			const files = 10 * boundNodes
			for i := range files {
				must.Succeed(t, os.WriteFile(m.there(fmt.Sprint("d/", i)), []byte("x"), 0o644))
			}
			must.Succeed(t, syscall.Mount(m.there("d/8"), m.at("d/9"), "", syscall.MS_BIND, ""))
			defer syscall.Unmount(m.at("d/9"), syscall.MNT_DETACH)
			m.say(how)
			f, err := os.Open(m.at("d/7"))
			must.Succeed(t, err)
			defer f.Close()
			list, err := os.ReadDir(m.at("d"))
			if err != nil || len(list) != files {
				t.Fatalf("%d names, %v", len(list), err)
			}
			must.Become(t, "as few nodes as the bound has it", func() bool {
				s := m.stats()
				return s.Nodes <= boundNodes*5/4 && s.NodesMost == boundNodes
			})
			_, err = f.ReadAt(make([]byte, 1), 0)
			must.Succeed(t, err)
			if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil || link != m.at("d/7") {
				t.Errorf("the open file is %s, %v", link, err)
			}
			above, err := os.Stat(m.at("d/9"))
			must.Succeed(t, err)
			if source, err := os.Stat(m.there("d/8")); err != nil || !os.SameFile(above, source) {
				t.Errorf("what was mounted on a file is gone, %v", err)
			}
			for i := range files {
				b, err := os.ReadFile(m.at(fmt.Sprint("d/", i)))
				if err != nil || string(b) != "x" {
					t.Fatalf("%q, %v", b, err)
				}
			}
		})
	}
}
