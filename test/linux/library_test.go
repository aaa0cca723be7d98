// The client library against Linux's server.

package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

func library(t *testing.T, port int, opt nfsclient.Options) {
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	target := nfsclient.Target{Transport: opt.Transport, TransportSet: true, Host: "127.0.0.1", Port: port, Path: "/export"}
	f, _, err := nfsclient.Open(ctx, target, opt)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer f.Client().Close()
	for _, part := range []struct {
		name string
		do   func(context.Context, *nfsclient.FS) error
	}{
		{"odd offsets at once", libraryOffsets}, {"names", libraryNames}, {"attributes", libraryAttributes}, {"links", libraryLinks},
	} {
		if err := f.Mkdir(ctx, "library", 0o777); err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		if err := part.do(ctx, f); err != nil {
			t.Errorf("%s: %v", part.name, err)
		}
		if err := f.RemoveAll(ctx, "library"); err != nil {
			t.Fatalf("RemoveAll: %v", err)
		}
	}
}

// libraryOffsets writes each size at an odd offset in its own file, all concurrently, and reads it
// back between guards.
func libraryOffsets(ctx context.Context, f *nfsclient.FS) error {
	var all errgroup.Group
	for i, n := range sizes {
		all.Go(func() error {
			file, err := f.OpenFile(ctx, fmt.Sprintf("library/%d", n), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
			if err != nil {
				return err
			}
			defer file.Close()
			off, want := int64(1+i*1013), pattern(n, 8)
			if _, err := file.WriteAt(want, off); err != nil {
				return err
			}
			if err := file.Sync(); err != nil {
				return err
			}
			room := bytes.Repeat([]byte{0xaa}, n+2)
			if _, err := file.ReadAt(room[1:n+1], off); err != nil {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
			if !bytes.Equal(room[1:n+1], want) || room[0] != 0xaa || room[n+1] != 0xaa {
				return fmt.Errorf("%d bytes at %d are not what was written, or there were more", n, off)
			}
			if n == 0 {
				return nil
			}
			hole := bytes.Repeat([]byte{0xaa}, int(off))
			if _, err := file.ReadAt(hole, 0); err != nil || !bytes.Equal(hole, make([]byte, off)) {
				return fmt.Errorf("the hole of %d bytes before %d others: %v, or not zero", off, n, err)
			}
			return nil
		})
	}
	return all.Wait()
}

func libraryNames(ctx context.Context, f *nfsclient.FS) error {
	const n = 700
	long := strings.Repeat("n", 240)
	for i := range n {
		file, err := f.Create(ctx, fmt.Sprintf("library/%s-%04d", long, i), 0o600)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	list, err := f.ReadDir(ctx, "library")
	if err != nil || len(list) != n {
		return fmt.Errorf("%d names, %v, want %d", len(list), err, n)
	}
	for i, d := range list {
		if want := fmt.Sprintf("%s-%04d", long, i); d.Name() != want {
			return fmt.Errorf("name %d is %q", i, d.Name())
		}
	}
	first, second := "library/"+list[0].Name(), "library/"+list[1].Name()
	if err := f.Rename(ctx, first, second); err != nil {
		return err
	}
	if _, err := f.Lstat(ctx, first); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a name that was renamed: %v", err)
	}
	if err := f.Rmdir(ctx, "library"); err == nil {
		return errors.New("a directory that is not empty was removed")
	}
	return nil
}

func libraryAttributes(ctx context.Context, f *nfsclient.FS) error {
	const name = "library/f"
	file, err := f.Create(ctx, name, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(100_000), file.Truncate(5), file.Close()); err != nil {
		return err
	}
	at := time.Unix(1_000_000_000, 123_456_789)
	if err := errors.Join(f.Chmod(ctx, name, 0o751), f.Chown(ctx, name, 1000, 1001), f.Chtimes(ctx, name, at, at)); err != nil {
		return err
	}
	st, err := f.Stat(ctx, name)
	if err != nil {
		return err
	}
	if st.Size() != 5 || st.Mode() != 0o751 || !st.ModTime().Equal(at) {
		return fmt.Errorf("%v, %d bytes, %v", st.Mode(), st.Size(), st.ModTime())
	}
	if _, err := f.OpenFile(ctx, name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644); !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("exclusive creation of what is there: %v", err)
	}
	return nil
}

func libraryLinks(ctx context.Context, f *nfsclient.FS) error {
	for _, n := range []int{1, 3, 1000, 1023, 1024, 1025, 2000, 4000} {
		name, target := fmt.Sprintf("library/%d", n), strings.Repeat("0123456789", 400)[:n]
		if err := f.Symlink(ctx, target, name); err != nil {
			return err
		}
		if got, err := f.ReadLink(ctx, name); err != nil || got != target {
			return fmt.Errorf("a link of %d bytes: %d, %v", n, len(got), err)
		}
	}
	return nil
}
