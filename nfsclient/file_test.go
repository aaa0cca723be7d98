// Files: all sizes around the edges of inline, chunk and piece, at odd offsets and concurrently;
// flags, positions, streams.

package nfsclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// sizes are around the edges between forms: word, inline threshold (1024 and 4096), segment, piece,
// several pieces.
var sizes = []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20}

func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

func TestSizesAtOddOffsets(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		var wg sync.WaitGroup
		for i, n := range sizes {
			wg.Go(func() {
				if err := roundTrip(t, fsys, fmt.Sprint("f", n), n, int64(i*7+1)); err != nil {
					t.Errorf("%d bytes: %v", n, err)
				}
			})
		}
		wg.Wait()
	})
}

// roundTrip writes n bytes at off and reads them back: exactly, with too much room, and into the
// middle of a larger slice, whose other bytes must not change.
func roundTrip(t *testing.T, fsys *nfsclient.FS, name string, n int, off int64) error {
	want := random(n, uint64(n))
	f, err := fsys.Create(t.Context(), name, 0o644)
	if err != nil {
		return err
	}
	if k, err := f.WriteAt(want, off); k != n || err != nil {
		return fmt.Errorf("WriteAt: %d, %w", k, err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	buf := bytes.Repeat([]byte{0xA5}, n+10)
	got := buf[3 : 3+n]
	k, err := f.ReadAt(got, off)
	if n == 0 && err == io.EOF {
		err = nil
	}
	if k != n || err != nil {
		return fmt.Errorf("ReadAt: %d bytes, want %d: %w", k, n, err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("what was read differs")
	}
	if !bytes.Equal(buf[:3], []byte{0xA5, 0xA5, 0xA5}) || bytes.Count(buf[3+n:], []byte{0xA5}) != 7 {
		return errors.New("bytes outside the slice were written")
	}
	long := make([]byte, n+off2(n)+int(off))
	k, err = f.ReadAt(long, 0)
	size := int(off) + n
	if n == 0 {
		size = 0 // an empty write does not extend the file
	}
	if k != size || err != io.EOF {
		return fmt.Errorf("ReadAt beyond the end: %d of %d, %v", k, size, err)
	}
	if n > 0 && (!bytes.Equal(long[:off], make([]byte, off)) || !bytes.Equal(long[off:size], want)) {
		return errors.New("what was read from the start differs")
	}
	return f.Close()
}

// off2 returns how far a read goes beyond the end: less than a piece, or more.
func off2(n int) int { return 1 + n%2*(1<<20) }

func TestReadAtManyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		data := random(2<<20+5, 1)
		if err := fsys.WriteFile(t.Context(), "f", data, 0o600); err != nil {
			t.Fatalf("write file: %v", err)
		}
		f, err := fsys.Open(t.Context(), "f")
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer f.Close()
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 0))
				buf := make([]byte, 1<<20+100)
				for range 8 {
					off := r.IntN(len(data))
					p := buf[:r.IntN(len(buf))]
					n, err := f.ReadAt(p, int64(off))
					want := data[off:min(off+len(p), len(data))]
					if !bytes.Equal(p[:n], want) {
						t.Errorf("ReadAt(%d bytes, %d): %d bytes, want %d with the right content", len(p), off, n, len(want))
						return
					}
					if n < len(p) && err == nil {
						t.Errorf("ReadAt(%d bytes, %d): %d bytes without an error", len(p), off, n)
						return
					}
					if err != nil && err != io.EOF {
						t.Errorf("ReadAt(%d bytes, %d): %v", len(p), off, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestFileReader(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		data := random(1500, 2)
		if err := fsys.WriteFile(t.Context(), "f", data, 0o600); err != nil {
			t.Fatalf("write file: %v", err)
		}
		f, err := fsys.Open(t.Context(), "f")
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer f.Close()
		if err := iotest.TestReader(f, data); err != nil {
			t.Errorf("iotest reader: %v", err)
		}
	})
}

func TestStreams(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		for _, n := range []int{0, 1, 1 << 20, 5<<20 + 77} {
			want := random(n, 3)
			f, err := fsys.Create(t.Context(), "s", 0o600)
			if err != nil {
				t.Fatalf("create: %v", err)
			}
			if k, err := io.Copy(f, struct{ io.Reader }{bytes.NewReader(want)}); k != int64(n) || err != nil {
				t.Fatalf("copy in %d: %d, %v", n, k, err)
			}
			if err := f.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			if f, err = fsys.Open(t.Context(), "s"); err != nil {
				t.Fatalf("open: %v", err)
			}
			var got bytes.Buffer
			if k, err := io.Copy(struct{ io.Writer }{&got}, f); k != int64(n) || err != nil {
				t.Fatalf("copy out %d: %d, %v", n, k, err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("%d bytes came back different", n)
			}
			f.Close()
		}
	})
}

func TestOpenFlags(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		if _, err := fsys.Open(ctx, "no"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of nothing: %v", err)
		}
		f, err := fsys.OpenFile(ctx, "f", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
		if err != nil {
			t.Fatalf("open file: %v", err)
		}
		fi, err := f.Stat()
		if err != nil {
			t.Fatalf("stat: %v", err)
		}
		if fi.Mode() != 0o640 || fi.Size() != 0 {
			t.Errorf("exclusive create: mode %v, %d bytes, want 0640, 0", fi.Mode(), fi.Size())
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("read of a file opened to write: %v", err)
		}
		if _, err := f.Write([]byte("hello")); err != nil {
			t.Fatalf("write: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
		if _, err := fsys.OpenFile(ctx, "f", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640); !errors.Is(err, fs.ErrExist) {
			t.Errorf("exclusive create of what is there: %v", err)
		}
		a, err := fsys.OpenFile(ctx, "f", os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatalf("open file: %v", err)
		}
		if _, err := a.Write([]byte(" world")); err != nil {
			t.Fatalf("write: %v", err)
		}
		a.Close()
		if b, err := fsys.ReadFile(ctx, "f"); string(b) != "hello world" || err != nil {
			t.Errorf("after append: %q, %v", b, err)
		}
		r, _ := fsys.Open(ctx, "f")
		if _, err := r.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("write to a file opened to read: %v", err)
		}
		if _, err := r.ReadAt(make([]byte, 1), -1); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("read at -1: %v", err)
		}
		if off, err := r.Seek(-5, io.SeekEnd); off != 6 || err != nil {
			t.Errorf("seek: %d, %v", off, err)
		}
		if b, err := io.ReadAll(r); string(b) != "world" || err != nil {
			t.Errorf("after seek: %q, %v", b, err)
		}
		r.Close()
		if _, err := fsys.OpenFile(ctx, "f", os.O_RDWR|os.O_TRUNC, 0); err != nil {
			t.Fatalf("open file: %v", err)
		}
		if fi, err := fsys.Stat(ctx, "f"); err != nil || fi.Size() != 0 {
			t.Errorf("after O_TRUNC: %v, %v", fi, err)
		}
		if _, err := fsys.OpenFile(ctx, "/", os.O_RDWR, 0); err == nil {
			t.Error("a directory opens to write")
		}
	})
}
