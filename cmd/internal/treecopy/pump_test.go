// The bytes of one file while its source changes: growing, shrinking, cut, sparse, of a wrong size.

package treecopy

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A sparseSource calls next before NextData returns.
type sparseSource struct {
	Source
	next func(off int64, err error) // err is NextData's result
}

func (s *sparseSource) NextData(off int64) (start, end int64, ok bool, err error) {
	start, end, ok, err = s.Source.NextData(off)
	s.next(off, err)
	return start, end, ok, err
}

// sparseFile returns a file with data at its beginning and a hole up to size.
func sparseFile(t *testing.T, size int64) string {
	t.Helper()
	p := write(t, strings.Repeat("data", 1<<19), t.TempDir(), "src") // 2 MiB
	must.Succeed(t, os.Truncate(p, size))
	if m, err := (Local{}).stat(t, p); err != nil || !m.sparse() {
		machine.Skip(t, "the temporary directory has no holes")
	}
	return p
}

// stat describes a file of this machine as an operand is described.
func (l Local) stat(t *testing.T, p string) (Meta, error) {
	d, base, err := l.Parent(t.Context(), p, p)
	if err != nil {
		return Meta{}, err
	}
	defer d.Close()
	return d.Lstat(t.Context(), base)
}

// TestGrowingSparseSource: data appended just after the file system has reported the last data is
// copied or left out, but never replaced by zeros.
func TestGrowingSparseSource(t *testing.T) {
	src := sparseFile(t, 5<<20)
	appended := 0
	tree := &fake{open: func(m Meta, s Source) (Source, error) {
		return &sparseSource{s, func(off int64, err error) {
			if err != io.EOF || appended > 3 {
				return
			}
			appended++
			f, err := os.OpenFile(src, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.Write(bytes.Repeat([]byte("more"), 1<<18))
				f.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}}, nil
	}}
	dst := filepath.Join(t.TempDir(), "dst")
	cp(t, Options{}, local(dst), at(tree, src)).want(t)
	want, err := os.ReadFile(src)
	if err != nil || appended == 0 {
		t.Fatal(err, appended)
	}
	got, err := os.ReadFile(dst)
	if err != nil || len(got) < 5<<20 || len(got) > len(want) || !bytes.Equal(got, want[:len(got)]) {
		t.Errorf("%d bytes, %v, that are not the first of the source's %d", len(got), err, len(want))
	}
}

// TestShrinkingSparseSource: a source is truncated while it is read. Its copy is no longer than the
// source at its largest after that, or than the bytes read before.
func TestShrinkingSparseSource(t *testing.T) {
	src := sparseFile(t, 20<<20)
	cut := false
	tree := &fake{open: func(m Meta, s Source) (Source, error) {
		return &sparseSource{s, func(off int64, err error) {
			if err == io.EOF && !cut {
				cut = true
				if err := os.Truncate(src, 3<<20); err != nil {
					t.Errorf("os.Truncate: %v", err)
				}
			}
		}}, nil
	}}
	dst := filepath.Join(t.TempDir(), "dst")
	cp(t, Options{}, local(dst), at(tree, src)).want(t)
	if fi, err := os.Stat(dst); err != nil || fi.Size() != 3<<20 || !cut {
		t.Errorf("%v, %v", fi, err)
	}
}

// A cutSource is a stream that breaks or ends after a number of bytes.
type cutSource struct {
	Source
	left int
	err  error
}

func (c *cutSource) Stream() bool { return true }

func (c *cutSource) Read(p []byte) (int, error) {
	n := min(len(p), c.left, 1000)
	if c.left -= n; c.left == 0 {
		return n, c.err // a reader may return the error with the last bytes
	}
	return n, nil
}

// TestCutStreamIsNoWholeFile: a stream whose error is io.ErrUnexpectedEOF has broken, not ended.
// Its bytes do not replace the target, whether it breaks in the first block or later.
func TestCutStreamIsNoWholeFile(t *testing.T) {
	for _, given := range []int{0, 10, blockSize, 3*blockSize + 10} {
		for _, why := range []error{io.EOF, io.ErrUnexpectedEOF, fmt.Errorf("connection: %w", io.EOF)} {
			src := write(t, "", t.TempDir(), "src")
			dst := write(t, "old", t.TempDir(), "dst")
			tree := &fake{open: func(m Meta, s Source) (Source, error) {
				return &cutSource{s, given, why}, nil
			}}
			l := cp(t, Options{}, local(dst), at(tree, src))
			if why == io.EOF {
				l.want(t)
				wantFile(t, strings.Repeat("\x00", given), dst)
				continue
			}
			l.want(t, "error reading '"+src+"'")
			wantFile(t, "old", dst)
			if got := names(t, filepath.Dir(dst)); got != "dst" {
				t.Errorf("left: %s", got)
			}
		}
	}
}

// TestSparseCopiesAreEqual: a copy has its source's bytes and no more disk space, however the
// source reports its holes.
func TestSparseCopiesAreEqual(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	dir := t.TempDir()
	for i := range 12 {
		src := filepath.Join(dir, fmt.Sprint("src", i))
		f, err := os.Create(src)
		if err != nil {
			t.Fatalf("os.Create: %v", err)
		}
		size := int64(1+r.IntN(6<<20)) + 2<<20
		for range r.IntN(5) {
			b := bytes.Repeat([]byte{byte('a' + i)}, 1+r.IntN(300<<10))
			if _, err := f.WriteAt(b, r.Int64N(size)); err != nil {
				t.Fatalf("WriteAt: %v", err)
			}
		}
		if err := f.Truncate(size); err != nil {
			t.Fatalf("Truncate: %v", err)
		}
		f.Close()
		for _, how := range []Sparse{SparseAuto, SparseAlways, SparseNever} {
			dst := filepath.Join(dir, fmt.Sprint("dst", i, how))
			cp(t, Options{Sparse: how}, local(dst), local(src)).want(t)
			want, _ := os.ReadFile(src)
			wantFile(t, string(want), dst)
			from, err := (Local{}).stat(t, src)
			to, err2 := (Local{}).stat(t, dst)
			if err != nil || err2 != nil || how != SparseNever && to.Used > from.Used+10*holeSize {
				// up to five pieces of data, whose ten ends may each lie within a hole's size
				t.Errorf("%v: %d bytes of disk for %d (%v, %v)", how, to.Used, from.Used, err, err2)
			}
		}
	}
}

// TestZerosOfAPiece: run finds stretches of zeros at multiples of holeSize from the file's start,
// not from the buffer's.
func TestZerosOfAPiece(t *testing.T) {
	zeros, data := make([]byte, holeSize), bytes.Repeat([]byte{1}, holeSize)
	for _, tc := range []struct {
		name string
		off  int64
		p    []byte
		n    int
		zero bool
	}{
		{"zeros", 0, zeros, holeSize, true},
		{"data", 0, data, holeSize, false},
		{"zeros, then data", 0, append(append([]byte{}, zeros...), data...), holeSize, true},
		{"data, then zeros", 0, append(append([]byte{}, data...), zeros...), holeSize, false},
		{"two of zeros", holeSize, append(append([]byte{}, zeros...), zeros...), 2 * holeSize, true},
		{"a part before the next multiple", 10, zeros, holeSize, true},
		{"zeros up to the multiple, then data", holeSize - 5, append(make([]byte, 5), data...), 5, true},
		{"data up to the multiple, then zeros", holeSize - 5, append([]byte("12345"), zeros...), 5, false},
		{"one byte among zeros", 0, append(append([]byte{}, zeros[:100]...), append([]byte{1}, zeros[101:]...)...), holeSize, false},
	} {
		if n, zero := new(writer).run(tc.p, tc.off); n != tc.n || zero != tc.zero {
			t.Errorf("%s: %d, %v; want %d, %v", tc.name, n, zero, tc.n, tc.zero)
		}
	}
}
