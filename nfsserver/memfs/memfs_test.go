// A memfs meets the contract of an FS, and keeps its limit.

package memfs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// me is the user that makes the calls.
var me = nfsserver.Self()

func TestFS(t *testing.T) {
	fstest.Run(t, func(*testing.T) nfsserver.FS { return New(Options{UID: me.UID, GID: me.GID}) })
}

// TestLimit: a full FS returns ENOSPC, and has room again after removals.
func TestLimit(t *testing.T) {
	f := New(Options{Limit: 1 << 20, UID: me.UID, GID: me.GID})
	start := f.used.Load()
	r, _, err := f.Create(me, f.Root(), "f", &nfsserver.SetAttr{})
	must.Succeed(t, err)
	b := make([]byte, 64<<10)
	var off uint64
	for err == nil {
		var n int
		n, err = f.WriteAt(me, r, b, off)
		off += uint64(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("after %d bytes: got %v, want ENOSPC", off, err)
	}
	if off < 1<<19 || off > 1<<20 {
		t.Fatalf("full after %d bytes, want between %d and %d", off, 1<<19, 1<<20)
	}
	if a, _ := f.Getattr(r); a.Size != off {
		t.Errorf("size %d after %d bytes", a.Size, off)
	}
	if st, err := f.Statfs(f.Root()); err != nil || st.AvailBytes >= 64<<10 {
		t.Errorf("Statfs of a full FS: %+v, %v", st, err)
	}
	must.Succeed(t, f.Remove(me, f.Root(), "f"))
	if f.used.Load() != start {
		t.Errorf("%d bytes are still charged", f.used.Load()-start)
	}
	for i := 0; ; i++ {
		if _, _, err := f.Mkdir(me, f.Root(), string(rune('a'+i%26))+string(rune(0x4e00+i)), &nfsserver.SetAttr{}); err != nil {
			if !errors.Is(err, syscall.ENOSPC) || i < 1000 {
				t.Errorf("directory %d: %v", i, err)
			}
			break
		}
	}
}
