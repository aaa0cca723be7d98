// Files and trees of the host: making them and comparing them.

package linux

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed, byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, b, 0o644))
}

func sameFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes with sum %x, want %d with %x", filepath.Base(path), len(got), sha256.Sum256(got), len(want), sha256.Sum256(want))
	}
}

// manyNames makes a directory with empty files below dir and returns the directory's name.
func manyNames(t *testing.T, dir string, names int) string {
	t.Helper()
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "many"), 0o777))
	for i := range names {
		write(t, filepath.Join(dir, "many", fmt.Sprintf("a-file-with-number-%d", i)), nil)
	}
	return "many"
}

// sameTree compares names, kinds, modes, contents, targets and the times of files.
func sameTree(t *testing.T, got, want string) {
	t.Helper()
	a, b := describe(t, got), describe(t, want)
	for name, line := range b {
		if a[name] != line {
			t.Errorf("%s: %q, want %q", name, a[name], line)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("%s should not be there", name)
		}
	}
}

func describe(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x %d", len(b), sha256.Sum256(b), info.ModTime().UnixNano())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + target
		}
		name, _ := filepath.Rel(root, path)
		all[name] = line
		return nil
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return all
}
