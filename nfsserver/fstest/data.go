// Checks of contents.

package fstest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

var dataChecks = []check{
	{"data/read and write", checkReadWrite},
	{"data/end of file", checkEOF},
	{"data/corner sizes", checkCornerSizes},
	{"data/holes", checkHoles},
	{"data/against a model", checkModel},
	{"data/offsets out of range", checkOffsets},
	{"data/not a file", checkNotAFile},
	{"data/sync", checkSync},
	{"data/readlink", checkReadlink},
	{"data/allocations", checkAllocs},
}

func checkReadWrite(t *tree) {
	f := t.file(t.root, "f")
	eq(t, "new file", t.get(f, 10, 0), "")
	t.put(f, "hello world", 0)
	eq(t, "all", t.get(f, 11, 0), "hello world")
	eq(t, "middle", t.get(f, 3, 4), "o w")
	t.put(f, "W", 6)
	eq(t, "overwritten", t.get(f, 100, 0), "hello World")
	t.put(f, "!", 11)
	eq(t, "appended", t.get(f, 100, 0), "hello World!")
	eq(t, "size", t.attr(f).Size, 12)
	t.put(f, "", 0)
	eq(t, "nothing written", t.attr(f).Size, 12)
	g := t.file(t.root, "g")
	eq(t, "another file", t.get(g, 100, 0), "")
}

func checkEOF(t *tree) {
	f := t.file(t.root, "f")
	t.put(f, "0123456789", 0)
	eq(t, "over the end", t.get(f, 100, 5), "56789")
	eq(t, "at the end", t.get(f, 100, 10), "")
	eq(t, "after the end", t.get(f, 100, 11), "")
	eq(t, "far after the end", t.get(f, 100, 1<<50), "")
	eq(t, "nothing", t.get(f, 0, 3), "")
}

// corners are sizes at the limits of inline data, chunks, pages and blocks.
var corners = []int{0, 1, 3, 4, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20}

func checkCornerSizes(t *tree) {
	data := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(data)
	back := make([]byte, 1<<20+1)
	for _, size := range corners {
		for _, off := range []uint64{0, 1, 4095, 65536} {
			f := t.file(t.root, fmt.Sprintf("f%d-%d", size, off))
			n, err := t.WriteAt(t.me, f, data[:size], off)
			t.ok(err, "WriteAt")
			eq(t, "bytes written", n, size)
			want := off + uint64(size)
			if size == 0 {
				want = 0
			}
			eq(t, "size", t.attr(f).Size, want)
			n, err = t.ReadAt(t.me, f, back, off)
			t.ok(err, "ReadAt")
			if !bytes.Equal(back[:n], data[:size]) {
				t.Errorf("%d bytes at %d: read back others", size, off)
			}
		}
	}
}

func checkHoles(t *tree) {
	f := t.file(t.root, "f")
	const off = 3<<20 + 17
	t.put(f, "end", off)
	eq(t, "size", t.attr(f).Size, off+3)
	b := bytes.Repeat([]byte{0xff}, 100000)
	n, err := t.ReadAt(t.me, f, b, 1<<20)
	t.ok(err, "ReadAt")
	eq(t, "bytes of a hole", n, len(b))
	eq(t, "zeros", bytes.Count(b, []byte{0}), len(b))
	eq(t, "hole and data", t.get(f, 100, off-2), "\x00\x00end")
	if used := t.attr(f).Used; used > 1<<20 && !t.has(ChargesHoles) {
		t.Errorf("a file of one piece uses %d bytes", used)
	}
}

// checkModel makes random writes, reads and truncations, and repeats them on a slice.
func checkModel(t *tree) {
	f := t.file(t.root, "f")
	rnd := rand.New(rand.NewSource(2))
	var model []byte
	for range 300 {
		off := rnd.Intn(300000)
		switch rnd.Intn(4) {
		case 0, 1:
			b := make([]byte, rnd.Intn(100000))
			rnd.Read(b)
			t.put(f, string(b), uint64(off))
			if len(b) > 0 && off+len(b) > len(model) {
				model = append(model, make([]byte, off+len(b)-len(model))...)
			}
			copy(model[min(off, len(model)):], b)
		case 2:
			t.ok(t.Setattr(t.me, f, &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: uint64(off)}), "truncate")
			if off <= len(model) {
				model = model[:off:off]
			} else {
				model = append(model, make([]byte, off-len(model))...)
			}
		case 3:
			n := rnd.Intn(100000)
			got := t.get(f, n, uint64(off))
			lo := min(off, len(model))
			if got != string(model[lo:min(lo+n, len(model))]) {
				t.Fatalf("%d bytes at %d are not what was written", n, off)
			}
		}
		eq(t, "size", t.attr(f).Size, uint64(len(model)))
	}
	eq(t, "all", t.get(f, len(model)+1, 0) == string(model), true)
}

func checkOffsets(t *tree) {
	f := t.file(t.root, "f")
	for _, off := range []uint64{math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1, math.MaxUint64} {
		_, err := t.WriteAt(t.me, f, []byte("xy"), off)
		t.want(err, "write beyond all files", fbig, inval)
		eq(t, "read beyond all files", t.get(f, 2, off), "")
	}
	eq(t, "size", t.attr(f).Size, 0)
}

func checkNotAFile(t *tree) {
	b := make([]byte, 4)
	d := t.dir(t.root, "d")
	_, err := t.ReadAt(t.me, d, b, 0)
	t.want(err, "read of a directory", isDir)
	_, err = t.WriteAt(t.me, d, b, 0)
	t.want(err, "write of a directory", isDir)
	var others []nfsserver.Ref
	if !t.has(NoSpecialFiles) {
		p, _, err := t.Mknod(t.me, t.root, "p", nfsserver.TypeFIFO, nfsserver.Rdev{}, mode(0o600))
		t.ok(err, "Mknod")
		others = append(others, p)
	}
	if !t.has(NoSymlinks) {
		others = append(others, t.link(t.root, "l", "d"))
	}
	for _, r := range others {
		_, err = t.ReadAt(t.me, r, b, 0)
		t.want(err, "read of no file", inval)
		_, err = t.WriteAt(t.me, r, b, 0)
		t.want(err, "write of no file", inval)
	}
}

func checkSync(t *tree) {
	f, d := t.file(t.root, "f"), t.dir(t.root, "d")
	t.put(f, "x", 0)
	list := []nfsserver.Ref{f, d, t.root}
	if !t.has(NoSymlinks) {
		list = append(list, t.link(t.root, "l", "x"))
	}
	for _, r := range list {
		t.ok(t.Sync(r, true), "Sync of data")
		t.ok(t.Sync(r, false), "Sync")
	}
	t.ok(t.Setattr(t.me, f, mode(0)), "Setattr")
	t.ok(t.Sync(f, false), "Sync of a file of mode 0")
}

func checkReadlink(t *tree) {
	if t.has(NoSymlinks) {
		return
	}
	for i, target := range []string{"x", "/etc/passwd", "../../..", "a b\n\xff", string(bytes.Repeat([]byte("y"), 1000)), string(bytes.Repeat([]byte("z/"), 2047))} {
		r, _, err := t.Symlink(t.me, t.root, fmt.Sprint("l", i), target, mode(0o777))
		if errors.Is(err, syscall.ENAMETOOLONG) && len(target) > 1024 {
			continue // XFS has no longer ones
		}
		t.ok(err, "Symlink")
		got, err := t.Readlink(t.me, r)
		t.ok(err, "Readlink")
		eq(t, "target", got, target)
	}
	for _, r := range []nfsserver.Ref{t.file(t.root, "f"), t.root} {
		_, err := t.Readlink(t.me, r)
		t.want(err, "Readlink of another object", inval)
	}
}

func checkAllocs(t *tree) {
	f := t.file(t.root, "f")
	b := make([]byte, 8192)
	step := func() {
		if _, err := t.WriteAt(t.me, f, b, 4096); err != nil {
			t.Fatal(err)
		}
		if _, err := t.ReadAt(t.me, f, b, 4096); err != nil {
			t.Fatal(err)
		}
		if _, err := t.Getattr(f); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if t.has(Allocates) {
		return
	}
	eq(t, "allocations of WriteAt, ReadAt and Getattr", allocs(step), 0)
}
