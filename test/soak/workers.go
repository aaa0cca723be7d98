// The workers' operations: compared copies, killed copies, mounts and changes of names.

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// maxCopy limits the size of copied files; killed copies are larger.
const (
	maxCopy  = 8 << 20
	killSize = 64 << 20
	killWait = 400 * time.Millisecond // maximum delay before a client is killed
)

// content makes a file with size random bytes and returns its hash.
func (w *worker) content(name string, size int64) (sum [sha256.Size]byte, err error) {
	f, err := os.Create(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	hash := sha256.New()
	piece := make([]byte, 64<<10)
	for left := size; left > 0; left -= int64(len(piece)) {
		piece = piece[:min(left, int64(len(piece)))]
		for i := 0; i < len(piece); i++ {
			if i%8 == 0 {
				v := w.rand.Uint64()
				for k := i; k < min(i+8, len(piece)); k++ {
					piece[k], v = byte(v), v>>8
				}
			}
		}
		hash.Write(piece)
		if _, err := f.Write(piece); err != nil {
			return sum, err
		}
	}
	return [sha256.Size]byte(hash.Sum(nil)), f.Close()
}

// wantHash returns an error unless a file has the hash.
func wantHash(name string, want [sha256.Size]byte) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	if err == nil && [sha256.Size]byte(hash.Sum(nil)) != want {
		err = fmt.Errorf("%s: hash differs after %d bytes", name, n)
	}
	return err
}

// copySize returns a size at one of the limits, or any size.
func (w *worker) copySize() int64 {
	edges := []int64{0, 1, 4095, 4097, 64 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1}
	if w.rand.IntN(3) == 0 {
		return edges[w.rand.IntN(len(edges))]
	}
	return w.rand.Int64N(maxCopy)
}

// copyBoth copies a file to the server and back, and compares both copies.
func (w *worker) copyBoth(ctx context.Context) error {
	from, back := filepath.Join(w.local, "from"), filepath.Join(w.local, "back")
	sum, err := w.content(from, w.copySize())
	if err != nil {
		return err
	}
	if err := w.server.client(ctx, "cp", from, w.url("copy")); err != nil {
		return err
	}
	if err := wantHash(w.served("copy"), sum); err != nil {
		return err
	}
	if err := w.server.client(ctx, "mv", w.url("copy"), w.url("moved")); err != nil {
		return err
	}
	if err := w.server.client(ctx, "cp", w.url("moved"), back); err != nil {
		return err
	}
	if err := wantHash(back, sum); err != nil {
		return err
	}
	w.done.copied.Add(1)
	w.done.changed.Add(2)
	return errors.Join(w.server.client(ctx, "rm", w.url("moved")), os.Remove(back))
}

// killOne kills a client during a copy of a large file in either direction. It removes the remains
// directly in the served directory, while the server may have them open.
func (w *worker) killOne(ctx context.Context) error {
	big := filepath.Join(w.local, "big")
	if _, err := os.Stat(big); errors.Is(err, fs.ErrNotExist) {
		if _, err := w.content(big, killSize); err != nil {
			return err
		}
		if err := w.server.client(ctx, "cp", big, w.url("big")); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(w.served("out"), 0o755); err != nil {
		return err
	}
	from, to := big, w.url("out/copy")
	if w.rand.IntN(2) == 0 {
		from, to = w.url("big"), filepath.Join(w.local, "back")
	}
	killed, err := w.server.killedClient(w.randomDuration(killWait), "cp", from, to)
	if killed {
		w.done.killed.Add(1)
	}
	left, _ := filepath.Glob(filepath.Join(w.local, "*back*"))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return errors.Join(err, removeServed(w.served("out")))
}

// removeServed removes a directory to which the server may still add files, from calls sent before
// the client was killed.
func removeServed(dir string) (err error) {
	for range 100 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// mountAndChange mounts, makes, renames, lists and removes names, and unmounts, or disconnects
// without unmounting.
func (w *worker) mountAndChange(ctx context.Context) (err error) {
	target, err := nfsclient.ParseTarget(w.url("tree"))
	if err != nil {
		return err
	}
	fsys, rest, err := nfsclient.Open(ctx, target, nfsclient.Options{Conns: 1 + w.rand.IntN(3)})
	if err != nil {
		return err
	}
	defer func() {
		if w.rand.IntN(4) > 0 {
			err = errors.Join(err, fsys.Client().Unmount(ctx, exportName))
		}
		err = errors.Join(err, fsys.Client().Close())
	}()
	w.done.mounted.Add(1)
	if err := fsys.Mkdir(ctx, rest, 0o755); err != nil {
		return err
	}
	files := 1 + w.rand.IntN(20)
	for i := range files {
		a, b := fmt.Sprintf("%s/a%d", rest, i), fmt.Sprintf("%s/b%d", rest, i)
		if err := fsys.WriteFile(ctx, a, []byte(a), 0o644); err != nil {
			return err
		}
		if err := fsys.Rename(ctx, a, b); err != nil {
			return err
		}
		if got, err := fsys.ReadFile(ctx, b); err != nil || string(got) != a {
			return fmt.Errorf("%s: %q, %w", b, got, err)
		}
	}
	if list, err := fsys.ReadDir(ctx, rest); err != nil || len(list) != files {
		return fmt.Errorf("%s: %d entries of %d, %w", rest, len(list), files, err)
	}
	w.done.changed.Add(int64(3*files + 2))
	return fsys.RemoveAll(ctx, rest)
}
