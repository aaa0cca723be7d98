// The null file system as the kernel sees it: one name, a size, and no byte beyond it.

package mountpeer

import (
	"math"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func TestNullHasOneName(t *testing.T) {
	f := newNull(1 << 30)
	var out fuse.EntryOut
	if s := f.Lookup(nil, nil, NullFile, &out); s != fuse.OK {
		t.Fatal(s)
	}
	if out.NodeId != nullNode || out.Ino != nullNode || out.Generation == 0 {
		t.Errorf("node %d, inode %d, generation %d, want %d twice, and a generation", out.NodeId, out.Ino, out.Generation, nullNode)
	}
	if out.Mode != unix.S_IFREG|0o666 || out.Size != 1<<30 {
		t.Errorf("mode %o, size %d, want a file with 666, 1 GiB", out.Mode, out.Size)
	}
	// The kernel must cache the answers for long, or each pass would measure lookups as well.
	if out.EntryValid != uint64(nullTime.Seconds()) || out.AttrValid != uint64(nullTime.Seconds()) {
		t.Errorf("valid for %d and %d seconds", out.EntryValid, out.AttrValid)
	}
	for _, name := range []string{"", ".", "Data", "data ", "data/x"} {
		if s := f.Lookup(nil, nil, name, new(fuse.EntryOut)); s != fuse.ENOENT {
			t.Errorf("%q: %v", name, s)
		}
	}
}

func TestNullAttributes(t *testing.T) {
	f := newNull(4096)
	for node, want := range map[uint64]fuse.Attr{
		nullRoot: {Ino: nullRoot, Nlink: 1, Blksize: 2 << 20, Mode: unix.S_IFDIR | 0o777},
		nullNode: {Ino: nullNode, Nlink: 1, Blksize: 2 << 20, Mode: unix.S_IFREG | 0o666, Size: 4096},
	} {
		in, out := &fuse.GetAttrIn{}, fuse.AttrOut{}
		in.NodeId = node
		if s := f.GetAttr(nil, in, &out); s != fuse.OK || out.Attr != want || out.AttrValid != uint64(nullTime.Seconds()) {
			t.Errorf("node %d: %v, %+v", node, s, out)
		}
	}
}

// Files are opened like our mounts': pages are kept, and O_DIRECT bypasses them, in parallel.
func TestNullOpens(t *testing.T) {
	f := newNull(1)
	for flags, want := range map[uint32]uint32{
		unix.O_RDONLY:                 fuse.FOPEN_KEEP_CACHE,
		unix.O_RDWR:                   fuse.FOPEN_KEEP_CACHE,
		unix.O_RDONLY | unix.O_DIRECT: fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES,
	} {
		var out fuse.OpenOut
		if s := f.Open(nil, &fuse.OpenIn{Flags: flags}, &out); s != fuse.OK || out.OpenFlags != want {
			t.Errorf("flags %#o: %v, %#x, want %#x", flags, s, out.OpenFlags, want)
		}
	}
}

// A read returns the requested bytes, limited by the end of the file and of the memory.
func TestNullReadsEndWithTheFile(t *testing.T) {
	const size = 3<<20 + 100
	f := newNull(size)
	for _, c := range []struct {
		off  uint64
		n    uint32
		want int
	}{
		{0, 4096, 4096}, {0, 0, 0}, {1 << 20, 2 << 20, 2 << 20}, {0, 3 << 20, 2 << 20},
		{size - 1, 4096, 1}, {size - 4096, 4096, 4096}, {size, 4096, 0}, {size + 1, 1, 0}, {math.MaxUint64, math.MaxUint32, 0},
	} {
		r, s := f.Read(nil, &fuse.ReadIn{Offset: c.off, Size: c.n}, nil)
		if s != fuse.OK || r.Size() != c.want {
			t.Errorf("%d bytes at %d: %v, %d bytes, want %d", c.n, c.off, s, r.Size(), c.want)
			continue
		}
		p, s := r.Bytes(make([]byte, c.n))
		if s != fuse.OK || len(p) != c.want {
			t.Errorf("%d bytes at %d: %v, %d bytes", c.n, c.off, s, len(p))
		}
	}
}

// All writes are accepted and dropped; other operations that programs use succeed.
func TestNullDropsWhatIsWritten(t *testing.T) {
	f := newNull(8)
	if n, s := f.Write(nil, &fuse.WriteIn{Offset: 4}, []byte("bytes")); s != fuse.OK || n != 5 {
		t.Errorf("%v, %d bytes", s, n)
	}
	r, _ := f.Read(nil, &fuse.ReadIn{Size: 100}, nil)
	if p, _ := r.Bytes(nil); string(p) != string(make([]byte, 8)) {
		t.Errorf("%q", p)
	}
	for name, s := range map[string]fuse.Status{
		"access": f.Access(nil, &fuse.AccessIn{Mask: 7}), "flush": f.Flush(nil, &fuse.FlushIn{}), "fsync": f.Fsync(nil, &fuse.FsyncIn{}),
	} {
		if s != fuse.OK {
			t.Errorf("%s: %v", name, s)
		}
	}
	if f.String() != "null" {
		t.Error(f.String())
	}
}
